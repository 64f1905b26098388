package registry

import (
	"errors"
	"io/fs"
	"maps"

	bolt "go.etcd.io/bbolt"

	"garcon/store/internal/boltfile"
)

// maxValue bounds one record, in bytes: a chat's is below 64 KiB.
const maxValue = 4 << 20

// The buckets of a workspace file. Collections are buckets of their own, with
// collectionPrefix before their name.
const (
	bucketChats       = "chats"
	bucketDeleted     = "deleted-chats"
	bucketSubmissions = "submissions"
	bucketProviders   = "providers"
	bucketKeys        = "provider-keys"
	bucketSettings    = "settings"
	bucketSelections  = "selections"
	collectionPrefix  = "collection-"
)

// fixedBuckets are those that every file has.
var fixedBuckets = []string{
	bucketChats, bucketDeleted, bucketSubmissions, bucketProviders, bucketKeys, bucketSettings, bucketSelections,
}

// place is where a record is.
type place struct{ bucket, key string }

// records is the content of a file, or changes to it: a nil value then stands
// for a removal. Values are not to be changed.
type records map[string]map[string][]byte

func (r records) set(p place, value []byte) {
	if r[p.bucket] == nil {
		r[p.bucket] = map[string][]byte{}
	}
	r[p.bucket][p.key] = value
}

// merge puts changes over r.
func (r records) merge(changes records) {
	for bucket, values := range changes {
		if r[bucket] == nil {
			r[bucket] = map[string][]byte{}
		}
		maps.Copy(r[bucket], values)
	}
}

func fileFormat(version string) boltfile.Format {
	return boltfile.Format{Kind: "workspace", Version: version}
}

// openFile opens or creates the workspace file and reads all of it.
func openFile(path, version string, faults boltfile.Faults) (*boltfile.File, records, error) {
	f, err := boltfile.Open(path, fileFormat(version), faults)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = boltfile.Create(path, fileFormat(version), faults, false, func(tx *bolt.Tx) error {
			for _, name := range fixedBuckets {
				if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, nil, describe(path, err)
	}
	all, err := readAll(f)
	if err != nil {
		return nil, nil, errors.Join(describe(path, err), f.Close())
	}
	return f, all, nil
}

// readAll reads and verifies every record.
func readAll(f *boltfile.File) (records, error) {
	all := records{}
	err := f.View(func(tx *bolt.Tx) error {
		for _, name := range fixedBuckets {
			if tx.Bucket([]byte(name)) == nil {
				return &boltfile.DamageError{Reason: "it has no " + name + " bucket"}
			}
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if string(name) == string(boltfile.Meta().Name) {
				return nil
			}
			space := boltfile.NewSpace(string(name), maxValue)
			all[string(name)] = map[string][]byte{}
			return b.ForEach(func(k, sealed []byte) error {
				value, err := space.Unseal(k, sealed)
				if err != nil {
					return err
				}
				all.set(place{string(name), string(k)}, append([]byte(nil), value...))
				return nil
			})
		})
	})
	return all, err
}

// writeAll stores changes in one transaction.
func writeAll(f *boltfile.File, changes records) error {
	return f.Update(func(tx *bolt.Tx) error {
		for bucket, values := range changes {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			space := boltfile.NewSpace(bucket, maxValue)
			for key, value := range values {
				k := []byte(key)
				if value == nil {
					err = b.Delete(k)
				} else {
					err = b.Put(k, space.Sealed(k, value))
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// describe names the file that is damaged and its newest good copy.
func describe(path string, err error) error {
	damage, ok := errors.AsType[*boltfile.DamageError](err)
	if !ok {
		return err
	}
	return &DamagedError{Path: path, Reason: damage.Reason, Copy: newestCopy(path)}
}
