package boltfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// sealSize is what a checksum adds to a value.
const sealSize = 4

// Space seals the values of one bucket. Its name and the key are part of the
// checksum, so that a value found in the wrong place fails too.
type Space struct {
	// Name is the bucket's.
	Name []byte
	seed uint32
	// maxValue bounds a value in bytes: damage can claim any length, and
	// summing gigabytes of unrelated memory helps nobody.
	maxValue int
}

// NewSpace returns the space of a bucket whose values have at most maxValue
// bytes.
func NewSpace(name string, maxValue int) Space {
	return Space{Name: []byte(name), seed: crc32.Checksum([]byte(name+"\x00"), castagnoli()), maxValue: maxValue}
}

// castagnoli returns the table that the processor has instructions for;
// MakeTable returns the same one every time.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Seal appends the checksum to value and returns the result.
func (s Space) Seal(key, value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, s.sum(key, value))
}

// Sealed returns a sealed copy of value.
func (s Space) Sealed(key, value []byte) []byte {
	b := make([]byte, len(value), len(value)+sealSize)
	copy(b, value)
	return s.Seal(key, b)
}

// Unseal returns the value in sealed, which it shares, or a [*DamageError].
func (s Space) Unseal(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - sealSize
	if n < 0 || n > s.maxValue || binary.LittleEndian.Uint32(sealed[n:]) != s.sum(key, sealed[:n]) {
		return nil, &DamageError{Reason: fmt.Sprintf("the value %x of %s fails its checksum", key[:min(len(key), 64)], s.Name)}
	}
	return sealed[:n:n], nil
}

func (s Space) sum(key, value []byte) uint32 {
	table := castagnoli()
	return crc32.Update(crc32.Update(s.seed, table, key), table, value)
}
