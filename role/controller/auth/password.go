package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"garcon/proto/api"
)

// The parameters of argon2id: the second choice of RFC 9106, for machines that
// have other things to do.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 4
	argonKey     = 32 // bytes
	argonSalt    = 16 // bytes
	// maxHashing bounds how many passwords are hashed at once.
	maxHashing = 2
)

// format is the usual encoding of an argon2id hash.
const format = "$argon2id$v=%d$m=%d,t=%d,p=%d$"

// hashPassword returns the encoded hash of a password.
func hashPassword(password string) string {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	return fmt.Sprintf(format, argon2.Version, argonMemory, argonTime, argonThreads) +
		base64.RawStdEncoding.EncodeToString(salt) + "$" + base64.RawStdEncoding.EncodeToString(key)
}

// matches reports whether password has the encoded hash.
func matches(encoded, password string) bool {
	var (
		version, memory, passes int
		threads                 uint8
	)
	// The six parts are: nothing, the name, version, parameters, salt, key.
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 {
		return false
	}
	if n, err := fmt.Sscanf(encoded, format, &version, &memory, &passes, &threads); n != 4 || err != nil || version != argon2.Version {
		return false
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(want) == 0 || memory <= 0 || passes <= 0 || threads == 0 {
		return false
	}
	got := argon2.IDKey([]byte(password), salt, uint32(passes), uint32(memory), threads, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1
}

// hash runs f, which hashes a password, when there is room for it.
func (s *Sessions) hash(ctx context.Context, f func()) error {
	select {
	case s.hashing <- struct{}{}:
		defer func() { <-s.hashing }()
		f()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// PasswordSet reports whether there is a password.
func (s *Sessions) PasswordSet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.password != ""
}

func (s *Sessions) verifyPassword(ctx context.Context, password string) (ok bool, err error) {
	s.mu.Lock()
	encoded := s.password
	s.mu.Unlock()
	if encoded == "" || len(password) > api.MaxPassword {
		return false, nil
	}
	err = s.hash(ctx, func() { ok = matches(encoded, password) })
	return ok, err
}

// SetPassword changes or removes the password. A browser proves itself again by
// the current one; a program that holds the controller's credential needs none,
// so that a forgotten password can be replaced. Guessing is throttled by the
// address r came from. Every session but the caller's ends.
func (g *Guard) SetPassword(ctx context.Context, r *http.Request, by Identity, req api.PasswordRequest) error {
	s, client := g.Sessions, throttleKey(g.ClientAddr(r))
	if req.Next != "" && (len(req.Next) < api.MinPassword || len(req.Next) > api.MaxPassword) {
		return api.NewError(api.CodeInvalid, fmt.Sprintf("a password is %d to %d bytes long", api.MinPassword, api.MaxPassword), "Several words are easier to remember than signs.")
	}
	if by.Kind != Program && s.PasswordSet() {
		if wait := s.throttle.begin(client, time.Now()); wait > 0 {
			return api.NewError(api.CodeTooMany, "too many wrong passwords were given", "Try again later.")
		}
		ok, err := s.verifyPassword(ctx, req.Current)
		if err != nil {
			return err
		}
		if !ok {
			return errCurrent()
		}
		s.throttle.clear(client)
	}
	encoded := ""
	if req.Next != "" {
		if err := s.hash(ctx, func() { encoded = hashPassword(req.Next) }); err != nil {
			return err
		}
	}
	if err := s.putShared(ctx, shared{Cookie: s.cookie[strings.LastIndexByte(s.cookie, '_')+1:], Password: encoded}); err != nil {
		return err
	}
	s.mu.Lock()
	s.password = encoded
	s.mu.Unlock()
	s.log.Info("password changed", "set", encoded != "", "session", by.Session)
	return s.revokeOthers(ctx, by.Session)
}

// errCurrent is not UNAUTHORIZED: the session is good, the password is not.
func errCurrent() error {
	return api.NewError(api.CodeForbidden, "the current password is not right", "`garcon login` signs a browser in without it.")
}
