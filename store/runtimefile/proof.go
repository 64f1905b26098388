package runtimefile

// NewCapability returns a fresh secret for a descriptor.
func NewCapability() string { return "" }

// NewInstanceID returns a fresh id for a process.
func NewInstanceID() string { return "" }

// Bearer returns the token that authenticates the holder of the descriptor.
func Bearer(capability string) string { return "" }

// Proof returns what a process that holds the capability answers to a
// challenge.
func Proof(capability, role, instance, url string, challenge []byte) string { return "" }

// Verify reports whether proof answers the challenge, in constant time.
func Verify(capability, role, instance, url string, challenge []byte, proof string) bool {
	return false
}

// VerifyBearer reports whether token is the capability's bearer, in constant
// time.
func VerifyBearer(capability, token string) bool { return false }
