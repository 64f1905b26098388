package boltfile

import "hash/fnv"

// emptyImage is what bbolt writes into a new file: two meta pages, an empty
// free list and an empty leaf. Writing it ourselves saves the fsync that bbolt
// makes before the first transaction.
func emptyImage(pageSize int) []byte {
	b := make([]byte, 4*pageSize)
	header := func(id int, flags uint16) []byte {
		p := b[id*pageSize:]
		native.PutUint64(p, uint64(id))
		native.PutUint16(p[8:], flags)
		return p[pageHeader:]
	}
	for id := range 2 {
		m := header(id, flagMeta)
		native.PutUint32(m, metaMagic)
		native.PutUint32(m[4:], metaVersion)
		native.PutUint32(m[8:], uint32(pageSize))
		native.PutUint64(m[16:], 3) // root
		native.PutUint64(m[32:], 2) // free list
		native.PutUint64(m[40:], 4) // high water
		native.PutUint64(m[48:], uint64(id))
		sum := fnv.New64a()
		sum.Write(m[:metaSummed])
		native.PutUint64(m[metaSummed:], sum.Sum64())
	}
	header(2, flagFree)
	header(3, flagLeaf)
	return b
}
