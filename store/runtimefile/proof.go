package runtimefile

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"

	"github.com/google/uuid"
)

// The purposes that keys are derived from a capability for. They differ, so
// that a bearer that leaks proves nothing and a proof opens nothing.
const (
	purposeBearer = "garcon runtime bearer v1"
	purposeProof  = "garcon runtime proof v1"
)

// keyLength is that of SHA-256, in bytes.
const keyLength = sha256.Size

// NewCapability returns a fresh secret for a descriptor.
func NewCapability() string { return rand.Text() + rand.Text() }

// NewInstanceID returns a fresh id for a process.
func NewInstanceID() string { return uuid.NewString() }

func derive(capability, purpose string) []byte {
	key, err := hkdf.Key(sha256.New, []byte(capability), nil, purpose, keyLength)
	if err != nil {
		panic("runtimefile: " + err.Error()) // the length is fixed and small
	}
	return key
}

// Bearer returns the token that authenticates the holder of the descriptor.
func Bearer(capability string) string { return hex.EncodeToString(derive(capability, purposeBearer)) }

// Proof returns what a process that holds the capability answers to a
// challenge: an HMAC in hexadecimal over role, instance, URL and challenge.
func Proof(capability, role, instance, url string, challenge []byte) string {
	mac := hmac.New(sha256.New, derive(capability, purposeProof))
	// Each part goes with its length, so that no two lists read alike.
	for _, part := range []string{role, instance, url, string(challenge)} {
		mac.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// Verify reports whether proof answers the challenge, in constant time.
func Verify(capability, role, instance, url string, challenge []byte, proof string) bool {
	return equal(Proof(capability, role, instance, url, challenge), proof)
}

// VerifyBearer reports whether token is the capability's bearer, in constant
// time.
func VerifyBearer(capability, token string) bool { return equal(Bearer(capability), token) }

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
