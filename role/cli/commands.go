package cli

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Commands is the grammar of the client's commands, as kong reads it.
type Commands struct {
	Chats       Chats       `cmd:"" help:"Start, watch, steer and keep chats."`
	Agents      Agents      `cmd:"" help:"List the agents of an executor."`
	Models      Models      `cmd:"" help:"List the models of an agent."`
	Permissions Permissions `cmd:"" help:"List the permission modes of an agent."`
	Efforts     Efforts     `cmd:"" help:"List the reasoning efforts of an agent."`
	Providers   Providers   `cmd:"" help:"Configure model APIs for the direct agents."`
	Login       Login       `cmd:"" help:"Print a link that signs a browser in, once."`
	Doctor      Doctor      `cmd:"" help:"Check the configuration, the controller, the agents and the transcripts."`
	Version     VersionCmd  `cmd:"" help:"Print the version."`
	Completions Completions `cmd:"" help:"Print a shell completion script."`
	Complete    Complete    `cmd:"" name:"__complete" hidden:"" passthrough:"" help:"Complete a command line."`
}

// Chats are the commands of chats. Alone it lists them.
type Chats struct {
	Connection

	List        chatsList        `cmd:"" default:"withargs" help:"List chats (default)."`
	Start       chatsStart       `cmd:"" help:"Start a chat, wait for the turn and print the answer."`
	StartAsync  chatsStartAsync  `cmd:"" name:"start-async" help:"Start a chat and print its ids at once."`
	Resume      chatsResume      `cmd:"" help:"Send a message to a chat, wait for the turn and print the answer."`
	ResumeAsync chatsResumeAsync `cmd:"" name:"resume-async" help:"Send a message to a chat and print the turn's id at once."`
	Steer       chatsSteer       `cmd:"" help:"Send a message into the turn that is going."`
	Wait        chatsWait        `cmd:"" help:"Wait for a turn and print its answer."`
	Watch       chatsWatch       `cmd:"" help:"Print the transcript as it grows."`
	Status      chatsStatus      `cmd:"" help:"Show what a chat is doing."`
	Stop        chatsStop        `cmd:"" help:"Stop the turn that is going."`
	Decide      chatsDecide      `cmd:"" help:"Answer a permission request."`
	Answer      chatsAnswer      `cmd:"" help:"Answer a question of the agent."`
	Queue       Queue            `cmd:"" help:"Look after the messages that wait for the turn to end."`
	Read        chatsRead        `cmd:"" help:"Print the transcript."`
	Export      chatsExport      `cmd:"" help:"Write the whole transcript to a file."`
	Rename      chatsRename      `cmd:"" help:"Change a chat's title."`
	Tags        chatsTags        `cmd:"" help:"Show or change a chat's tags."`
	Pin         chatsPin         `cmd:"" help:"Keep chats at the top of the list."`
	Unpin       chatsUnpin       `cmd:"" help:"Undo pin."`
	Archive     chatsArchive     `cmd:"" help:"Take chats out of the list."`
	Unarchive   chatsUnarchive   `cmd:"" help:"Undo archive."`
	Compact     chatsCompact     `cmd:"" help:"Have the agent shorten its context."`
	Delete      chatsDelete      `cmd:"" help:"Delete chats and their transcripts for good."`
}

// chatArg is the argument of commands about one chat.
type chatArg struct {
	Chat string `arg:"" help:"Id of the chat, as chats list shows it."`
}

// chatsArg is the argument of commands about several chats.
type chatsArg struct {
	Chats []string `arg:"" name:"chat" help:"Ids of the chats."`
}

// seconds is a duration on the command line: 90, 90s or 5m.
type seconds time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *seconds) UnmarshalText(text []byte) error {
	t := string(text)
	if strings.Trim(t, "0123456789") == "" && t != "" {
		t += "s"
	}
	d, err := time.ParseDuration(t)
	if err != nil || d < 0 {
		return usage("a time is a number of seconds, or like 90s or 5m", "")
	}
	*s = seconds(d)
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare)
	return keys
}
