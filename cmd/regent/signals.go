package main

// viewSignal is what a signal is to a view that fills the terminal.
type viewSignal int

const (
	// signalResized is a terminal of another size.
	signalResized viewSignal = iota
	// signalResumed is the return of a process that was stopped: the terminal was
	// another's meanwhile.
	signalResumed
	// signalEnd ends the view. The signals that end any command are not among them.
	signalEnd
)
