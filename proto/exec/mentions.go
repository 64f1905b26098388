package exec

import "strings"

// mentionSeparator stands between the authored text and the files that were
// mentioned in it. It is fixed so that an imported history can be told from
// what the user wrote.
const mentionSeparator = "\n\n<garcon-mentioned-files>\n"

// JoinMentions returns the prompt followed by the mentioned files, which the
// agent then need not read.
func JoinMentions(prompt string, mentions []Mention) string {
	if len(mentions) == 0 {
		return prompt
	}
	var b strings.Builder
	b.WriteString(prompt)
	b.WriteString(mentionSeparator)
	for _, m := range mentions {
		b.WriteString("<file path=\"" + strings.ReplaceAll(m.Path, `"`, "&quot;") + "\">\n")
		b.WriteString(m.Text)
		if !strings.HasSuffix(m.Text, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString("</file>\n")
	}
	b.WriteString("</garcon-mentioned-files>")
	return b.String()
}

// StripMentions returns the authored part of a text made by [JoinMentions].
func StripMentions(text string) string {
	authored, _, _ := strings.Cut(text, mentionSeparator)
	return authored
}
