// Package demo is an agent without a model: built in, offline and
// deterministic. It shows what garcon does with an agent, and tests are driven
// with it. What it does with files and commands is real.
//
// It does what the lines of a prompt ask for, one after the other. "help"
// answers with this list; capital letters do not matter, and what is in
// brackets may be left out:
//
//	help                        what the agent understands
//	tour                        a bit of everything, in the project
//	say TEXT                    answers TEXT; "say hello" is answered kindly
//	slowly say TEXT             the same, streamed at reading speed
//	think[: TEXT]               streams reasoning
//	markdown                    a sample of every kind of Markdown
//	long [N]                    an answer of N KiB (64)
//	burst N                     N short rows as fast as they are taken
//	recall                      quotes how the conversation began
//	sleep N                     waits N seconds
//	hang                        waits until it is stopped or steered
//	run: COMMAND                runs a shell command after asking
//	background: COMMAND         starts one that outlives the turn
//	stop jobs                   ends background work
//	read FILE                   reads a file of the project
//	list                        lists the project
//	write FILE: TEXT            creates a file after asking
//	edit FILE: OLD => NEW       replaces text in a file after asking
//	ask me[: QUESTION? A, B]    asks the user
//	todo: A; B                  keeps a todo list while working through it
//	plan: TEXT                  asks for approval of a plan
//	delegate: TASK              a subagent works in the foreground
//	delegate in background: TASK
//	show tools                  one call of every kind of tool, made up
//	draw                        a picture in a tool result
//	notice TEXT                 a durable remark
//	fail[ with CODE]            ends the turn with an error
//	crash                       ends it with the death of a process
//
// A line that asks for none of these is commentary when another line does;
// otherwise the agent answers it with some reasoning and a kind word.
//
// Sessions are JSON Lines in the adapter's state directory, see [session].
package demo
