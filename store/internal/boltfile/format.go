package boltfile

import (
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Format says what a kind of file is and how older ones become current.
type Format struct {
	// Kind tells the files of this program apart.
	Kind string
	// Version is that of the running program.
	Version string
	// Ordered names the buckets whose keys have an order of their own, so that
	// whoever reads them notices a missing one. Every page of any other bucket
	// is checked when a file is opened.
	Ordered []string
	// Steps holds the migration from schema i+1 at index i; the current schema
	// is one more than their number.
	Steps []func(*bolt.Tx) error
}

// schema is the current schema number.
func (f Format) schema() int { return len(f.Steps) + 1 }

// maxMeta bounds a value of the meta bucket: far above what any needs.
const maxMeta = 8 << 20

// Meta is the bucket every file has for values about itself.
func Meta() Space { return NewSpace("meta", maxMeta) }

var schemaKey = []byte("schema")

// stampRecord is stored under schemaKey.
type stampRecord struct {
	Kind   string `json:"kind"`
	Schema int    `json:"schema"`
	// WrittenBy is the version that created or migrated the file.
	WrittenBy string `json:"writtenBy"`
}

// stamp writes the current schema into a file.
func (f Format) stamp(tx *bolt.Tx) error {
	value, err := json.Marshal(stampRecord{f.Kind, f.schema(), f.Version})
	if err != nil {
		return err
	}
	meta := Meta()
	b, err := tx.CreateBucketIfNotExists(meta.Name)
	if err != nil {
		return err
	}
	return b.Put(schemaKey, meta.Seal(schemaKey, value))
}

func readStamp(tx *bolt.Tx) (stampRecord, error) {
	var r stampRecord
	meta := Meta()
	b := tx.Bucket(meta.Name)
	if b == nil {
		return r, damaged("it has no meta bucket")
	}
	value, err := meta.Unseal(schemaKey, b.Get(schemaKey))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return r, damaged("its schema record is not readable: %v", err)
	}
	return r, nil
}

// SchemaCopy is where the file of an older schema is kept when it is migrated.
func SchemaCopy(path string, schema int) string { return fmt.Sprintf("%s.schema-%d", path, schema) }

// migrate brings an older file to the current schema in one transaction, after
// a copy of it is on disk.
func (f *File) migrate() error {
	var stamp stampRecord
	err := f.View(func(tx *bolt.Tx) (err error) {
		stamp, err = readStamp(tx)
		return err
	})
	if err != nil {
		return err
	}
	current := f.format.schema()
	switch {
	case stamp.Kind != f.format.Kind:
		return &DamageError{Path: f.path, Reason: fmt.Sprintf("it is a %s file, not a %s file", stamp.Kind, f.format.Kind)}
	case stamp.Schema > current:
		return &SchemaError{Path: f.path, Found: stamp.Schema, Known: current, WrittenBy: stamp.WrittenBy}
	case stamp.Schema == current:
		return nil
	case stamp.Schema < 1:
		return &DamageError{Path: f.path, Reason: fmt.Sprintf("its schema is %d", stamp.Schema)}
	}
	if err := CopyFile(f.path, SchemaCopy(f.path, stamp.Schema)); err != nil {
		return storageError("copy", f.path, err)
	}
	return f.Update(func(tx *bolt.Tx) error {
		for i := stamp.Schema; i < current; i++ {
			if err := f.format.Steps[i-1](tx); err != nil {
				return fmt.Errorf("migrate %s from schema %d: %w", f.path, i, err)
			}
		}
		return f.format.stamp(tx)
	})
}
