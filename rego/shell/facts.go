// Package shell reads the text of a shell command, or the words of a program
// that is started without a shell, and says what commands stand in it: their
// words and what is known about them, redirections, assignments, the folder they
// run in, and the commands that wrappers such as env, sudo and bash -c start.
//
// It knows grammar and nothing of what a program does, never runs anything and
// touches no file. It errs towards more: where a shell may read a text in two
// ways, the facts hold a Problem and the commands of both.
package shell

// Dialect is the shell language a text is written in.
type Dialect string

// The dialects that are understood. Anything else is judged as unknown.
const (
	Bash  Dialect = "bash"
	POSIX Dialect = "sh"
	Zsh   Dialect = "zsh"
)

// WordKind says how much of a word is known before the shell has run.
type WordKind string

// The kinds of word, from certain to unknown.
const (
	// Literal words reach the program exactly as Value says.
	Literal WordKind = "literal"
	// Glob words hold an unquoted pattern (*, ?, [...]): Value is the pattern,
	// what it matches depends on the folder.
	Glob WordKind = "glob"
	// Parameter words hold nothing but literal text and plain $name or ${name}
	// expansions: they are data, but their value is not known. The places where
	// a starter puts text of its own ({} of find and xargs -I) are such words too.
	Parameter WordKind = "parameter"
	// Dynamic words hold any other expansion (command, process or arithmetic
	// substitution, ${x@P}, ${x:=y}, ...): nothing is known about them.
	Dynamic WordKind = "dynamic"
)

// Word is one argument as it is written.
type Word struct {
	// Value is the word after quote removal. For words that are not Literal it
	// is the source text with the quotes removed where that is possible.
	Value string   `json:"value"`
	Kind  WordKind `json:"kind"`
	// Tilde is true when the word starts with an unquoted ~ or ~/ that the shell
	// replaces by the home directory; Value keeps the tilde.
	Tilde bool `json:"tilde,omitempty"`
	// Quoted is true when any part of the word was quoted. In a Parameter word
	// it is true only when every expansion is, so that one that may become none
	// or several words, which "$@" may too, can be told apart.
	Quoted bool `json:"quoted,omitempty"`
}

// Assign is a NAME=value written before a command or on its own.
type Assign struct {
	Name   string `json:"name"`
	Value  Word   `json:"value"`
	Append bool   `json:"append,omitempty"`
}

// Redirect is one redirection. Copies of descriptors (2>&1, >&-) and heredocs
// carry no file; see Mode.
type Redirect struct {
	// Op is the operator as written: >, >>, >|, <, <>, &>, >&, <&, <<, <<<, ...
	Op string `json:"op"`
	// FD is the descriptor before the operator as written ("2"), or empty.
	FD string `json:"fd,omitempty"`
	// Mode is what happens to Target: read, write, read_write, or none for
	// descriptor copies, heredocs and here-strings.
	Mode   string `json:"mode"`
	Target Word   `json:"target"`
}

// Command is one simple command, wherever it stands. Forms that are grammar to
// the shell are listed as commands where they do something: [[ ... ]] with the
// words of its expression, (( ... )) and let with one word for each expression,
// export, declare and their like.
//
// A command comes before those that stand in its words, and a wrapper before
// what it starts.
type Command struct {
	// Words are the program and its arguments. It is empty for a bare
	// assignment or a bare redirection.
	Words []Word `json:"words"`
	// Assigns are the assignments before the program.
	Assigns []Assign `json:"assigns,omitempty"`
	// Redirects are the redirections of this command alone and of every compound
	// statement around it, each listed once, at the first command it governs.
	Redirects []Redirect `json:"redirects,omitempty"`
	// Via tells the way to this command, outermost first: "pipe", "background",
	// "subshell", "block", "loop", "condition", "function", "case",
	// "substitution", "process_substitution", "heredoc", and for wrappers the
	// program that starts it: "env", "sudo", "timeout", "xargs", "find -exec",
	// "bash -c", "bash heredoc", "eval", "trap", ... A text that does not parse
	// is searched for what may be commands, and those have "unparsed".
	Via []string `json:"via,omitempty"`
	// OpenEnded is true where the starter adds arguments that are not in the
	// text (xargs, find -exec with {}, parallel).
	OpenEnded bool `json:"open_ended,omitempty"`
	// Stdin is where its input comes from: "" (inherited), "pipe", "file" (or a
	// copied descriptor), "heredoc", "string". A construct around the command
	// hands its own on.
	Stdin string `json:"stdin,omitempty"`
	// Dir is the folder that literal cd commands before it lead to, relative to
	// the starting folder or absolute, "" for the starting folder itself. It
	// means nothing when DirUnknown.
	Dir string `json:"dir,omitempty"`
	// DirUnknown is true after a cd whose target cannot be told, or one that may
	// or may not have run.
	DirUnknown bool `json:"dir_unknown,omitempty"`
	// Line and Column are 1-based, in the text where the command stands; for an
	// opened wrapper they are those of the wrapper.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Text is the source of the command, cut at 200 bytes.
	Text string `json:"text"`
}

// Problem is a reason why the text cannot be judged completely.
type Problem struct {
	// Kind is "syntax" (does not parse), "limit" (too long, too deep, too many
	// commands), "dialect" (unknown shell), "construct" (a form that is not
	// judged: coproc, a function that redefines a program, extended zsh forms) or
	// "wrapper" (a starter whose inner command cannot be told).
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// Facts is all that the text alone tells. A text with Problems is never
// certainly harmless, but the commands found in it still count for deny rules.
type Facts struct {
	Dialect  Dialect   `json:"dialect"`
	Commands []Command `json:"commands"`
	Problems []Problem `json:"problems,omitempty"`
}
