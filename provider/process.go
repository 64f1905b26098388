package provider

// Processes starts and ends the native processes of one runtime.
type Processes struct{}
