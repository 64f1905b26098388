package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
)

// The on-disk format of bbolt, version 2. All numbers are in native byte order.
//
//	page    id u64, flags u16, count u16, overflow u32, then the content
//	meta    magic u32, version u32, pageSize u32, flags u32, root u64,
//	        sequence u64, freelist u64, highWater u64, txid u64, checksum u64
//	branch  count × (pos u32, ksize u32, child u64), then the keys
//	leaf    count × (flags u32, pos u32, ksize u32, vsize u32), then the data
//	free    count × u64; a count of 0xFFFF means that the first one is the count
//
// pos counts from the start of its element.
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64
	metaSummed  = 56

	pageHeader  = 16
	elementSize = 16

	flagBranch = 0x01
	flagLeaf   = 0x02
	flagMeta   = 0x04
	flagFree   = 0x10

	// flagBucket marks a leaf element whose value is a bucket.
	flagBucket   = 0x01
	bucketHeader = 16

	minPageSize = 512
	maxPageSize = 64 << 10
	maxKeySize  = 32 << 10

	// maxDepth bounds a tree; at two children a page even 2^32 pages have
	// fewer levels, so a deeper one is a cycle.
	maxDepth = 40
	// maxPageRead bounds what is read of a page with overflow: enough for any
	// table of elements, without reading an 8 MiB value.
	maxPageRead = 128 << 10
)

var native = binary.NativeEndian

type meta struct {
	pageSize                    int64
	root, free, highWater, txid uint64
}

// checker looks at what bbolt follows blindly: both meta pages, the free list,
// and the branch pages of every bucket. Of an ordered bucket it reads no data
// page but the first and the last, so the cost for the rows of a transcript is
// about a two-thousandth of the file. It makes sure that
//
//   - the file is as long as its high-water mark says,
//   - every page number is in range and used once, so that no walk goes round
//     in circles (bbolt recurses, and a Go stack that overflows ends the
//     process), and
//   - no page on the free list is in use, so that the next write does not
//     overwrite data, and
//   - the elements of each page read fill it without a gap, so that none of
//     them is lost to a wrong count.
type checker struct {
	file io.ReaderAt
	size int64
	meta meta
	// ordered is Format.Ordered.
	ordered []string
	// used has a bit for each page that something refers to.
	used []byte
}

// check reports what is wrong with a bbolt file, as a [*DamageError] without a
// path, or the error of reading it.
func check(f *os.File, ordered []string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return damaged("it is not a regular file")
	}
	return (&checker{file: f, size: info.Size(), ordered: ordered}).run()
}

func (c *checker) run() error {
	if err := c.metas(); err != nil {
		return err
	}
	c.used = make([]byte, c.meta.highWater/8+1)
	c.claim(0, 1)
	if err := c.freelist(); err != nil {
		return err
	}
	return c.buckets()
}

func damaged(format string, args ...any) error {
	return &DamageError{Reason: fmt.Sprintf(format, args...)}
}

// metas reads both meta pages. A transaction ends with one write of a meta page
// that fits in a disk sector, so an interrupted one leaves both valid; a page
// that is not valid means that the last commit was lost.
func (c *checker) metas() error {
	if c.size == 0 {
		return damaged("it is empty")
	}
	first, err := c.metaAt(0, 0)
	if err != nil {
		return err
	}
	second, err := c.metaAt(first.pageSize, 1)
	if err != nil {
		return err
	}
	if first.pageSize != second.pageSize || first.txid == second.txid {
		return damaged("its two meta pages contradict each other")
	}
	c.meta = first
	if second.txid > first.txid {
		c.meta = second
	}
	m := c.meta
	if m.highWater < 4 || m.highWater > uint64(c.size/m.pageSize) {
		return damaged("it holds %d bytes and should hold %d", c.size, m.highWater*uint64(m.pageSize))
	}
	return nil
}

func (c *checker) metaAt(offset int64, id uint64) (meta, error) {
	var b [pageHeader + metaSize]byte
	if err := c.readAt(b[:], offset); err != nil {
		return meta{}, err
	}
	body := b[pageHeader:]
	sum := fnv.New64a()
	sum.Write(body[:metaSummed])
	m := meta{
		pageSize:  int64(native.Uint32(body[8:])),
		root:      native.Uint64(body[16:]),
		free:      native.Uint64(body[32:]),
		highWater: native.Uint64(body[40:]),
		txid:      native.Uint64(body[48:]),
	}
	switch {
	case native.Uint32(body) != metaMagic:
		return meta{}, damaged("meta page %d is not one", id)
	case native.Uint32(body[4:]) != metaVersion:
		return meta{}, damaged("meta page %d has format %d, not %d", id, native.Uint32(body[4:]), metaVersion)
	case native.Uint64(body[metaSummed:]) != sum.Sum64():
		return meta{}, damaged("meta page %d fails its checksum", id)
	case native.Uint64(b[:]) != id || native.Uint16(b[8:]) != flagMeta:
		return meta{}, damaged("meta page %d has a wrong header", id)
	case m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
		return meta{}, damaged("meta page %d names a page size of %d", id, m.pageSize)
	}
	return m, nil
}

// claim marks n pages from id as used. It fails when one is out of range or
// used already.
func (c *checker) claim(id, n uint64) error {
	if id >= c.meta.highWater || n > c.meta.highWater-id {
		return damaged("page %d is beyond the end", id)
	}
	for i := id; i < id+n; i++ {
		if c.used[i/8]&(1<<(i%8)) != 0 {
			return damaged("page %d is used twice", i)
		}
		c.used[i/8] |= 1 << (i % 8)
	}
	return nil
}

type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	// data is the page with its header, cut to maxPageRead.
	data []byte
	// size is the true length in bytes.
	size int64
}

// read returns a page whose number was claimed, and claims its overflow.
func (c *checker) read(id uint64, flags uint16) (page, error) {
	head := make([]byte, c.meta.pageSize)
	if err := c.readAt(head, int64(id)*c.meta.pageSize); err != nil {
		return page{}, err
	}
	p := page{
		id: native.Uint64(head), flags: native.Uint16(head[8:]), count: int(native.Uint16(head[10:])),
		overflow: uint64(native.Uint32(head[12:])), data: head,
	}
	if p.id != id || p.flags != flags {
		return page{}, damaged("page %d has a wrong header", id)
	}
	if p.overflow > 0 {
		if err := c.claim(id+1, p.overflow); err != nil {
			return page{}, err
		}
	}
	p.size = int64(p.overflow+1) * c.meta.pageSize
	if p.overflow > 0 {
		p.data = make([]byte, min(p.size, maxPageRead))
		if err := c.readAt(p.data, int64(id)*c.meta.pageSize); err != nil {
			return page{}, err
		}
	}
	return p, nil
}

func (c *checker) readAt(b []byte, offset int64) error {
	if offset+int64(len(b)) > c.size {
		return damaged("it ends at byte %d, within a page", c.size)
	}
	_, err := c.file.ReadAt(b, offset)
	return err
}

func (c *checker) freelist() error {
	if err := c.claim(c.meta.free, 1); err != nil {
		return err
	}
	p, err := c.read(c.meta.free, flagFree)
	if err != nil {
		return err
	}
	count, start := uint64(p.count), int64(pageHeader)
	if count == 0xFFFF {
		count, start = native.Uint64(p.data[pageHeader:]), pageHeader+8
	}
	if count > uint64(p.size-start)/8 {
		return damaged("the free list claims %d pages", count)
	}
	ids := make([]byte, count*8)
	if err := c.readAt(ids, int64(p.id)*c.meta.pageSize+start); err != nil {
		return err
	}
	for ; len(ids) > 0; ids = ids[8:] {
		if err := c.claim(native.Uint64(ids), 1); err != nil {
			return err
		}
	}
	return nil
}

// buckets walks the root bucket and each bucket in it. Nested buckets inside
// those do not occur in files of this program and are refused.
func (c *checker) buckets() error {
	type bucket struct {
		root    uint64
		ordered bool
	}
	var found []bucket
	err := c.tree(c.meta.root, true, func(flags uint32, key, value []byte) error {
		if flags&flagBucket == 0 {
			return damaged("a value lies outside of every bucket")
		}
		if len(value) < bucketHeader {
			return damaged("a bucket has no header")
		}
		if root := native.Uint64(value); root != 0 {
			found = append(found, bucket{root, slices.Contains(c.ordered, string(key))})
			return nil
		}
		return inlineBucket(value[bucketHeader:])
	})
	if err != nil {
		return err
	}
	for _, b := range found {
		err := c.tree(b.root, !b.ordered, func(flags uint32, _, _ []byte) error {
			if flags != 0 {
				return damaged("a bucket lies inside another")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inlineBucket checks a small bucket, which is a leaf page inside a value.
func inlineBucket(b []byte) error {
	if len(b) < pageHeader || native.Uint16(b[8:]) != flagLeaf {
		return damaged("an inline bucket has a wrong header")
	}
	p := page{flags: flagLeaf, count: int(native.Uint16(b[10:])), data: b, size: int64(len(b))}
	return p.elements(func(_ []byte, flags uint32, _, _ []byte) error {
		if flags != 0 {
			return damaged("a bucket lies inside another")
		}
		return nil
	})
}

// tree walks the branch pages under root. It visits the elements of every leaf
// when all is set, else those of the first and of the last, which is the one an
// append rewrites.
func (c *checker) tree(root uint64, all bool, leaf func(flags uint32, key, value []byte) error) error {
	if err := c.claim(root, 1); err != nil {
		return err
	}
	height, err := c.height(root)
	if err != nil {
		return err
	}
	return c.walk(root, height, all, true, true, leaf)
}

// height is how many levels of branch pages are above the leaves; bbolt keeps
// it the same along every path.
func (c *checker) height(root uint64) (int, error) {
	var b [pageHeader + elementSize]byte
	for height := range maxDepth {
		if root >= c.meta.highWater {
			return 0, damaged("page %d is beyond the end", root)
		}
		if err := c.readAt(b[:], int64(root)*c.meta.pageSize); err != nil {
			return 0, err
		}
		if native.Uint16(b[8:]) != flagBranch {
			return height, nil
		}
		root = native.Uint64(b[pageHeader+8:])
	}
	return 0, damaged("its pages form a circle")
}

// walk visits the claimed page id, which is height levels above the leaves.
// first and last say whether it is on the left and on the right edge.
func (c *checker) walk(id uint64, height int, all, first, last bool, leaf func(uint32, []byte, []byte) error) error {
	if height == 0 {
		if !all && !first && !last {
			return nil
		}
		p, err := c.read(id, flagLeaf)
		if err != nil {
			return err
		}
		return p.elements(func(_ []byte, flags uint32, key, value []byte) error { return leaf(flags, key, value) })
	}
	p, err := c.read(id, flagBranch)
	if err != nil {
		return err
	}
	children := make([]uint64, 0, p.count)
	err = p.elements(func(elem []byte, _ uint32, _, _ []byte) error {
		child := native.Uint64(elem[8:])
		children = append(children, child)
		return c.claim(child, 1)
	})
	if err != nil {
		return err
	}
	if len(children) == 0 {
		return damaged("branch page %d is empty", id)
	}
	for i, child := range children {
		err := c.walk(child, height-1, all, first && i == 0, last && i == len(children)-1, leaf)
		if err != nil {
			return err
		}
	}
	return nil
}

// elements visits the elements of a branch or leaf page after checking that
// their data follow the table of elements and each other, as bbolt writes them,
// and that their keys rise. key and value are nil for data beyond what was
// read; a branch has no values.
func (p page) elements(visit func(elem []byte, flags uint32, key, value []byte) error) error {
	table := int64(pageHeader + p.count*elementSize)
	if table > int64(len(p.data)) {
		return damaged("page %d claims %d elements", p.id, p.count)
	}
	var before []byte
	next := table
	for i := range int64(p.count) {
		at := pageHeader + i*elementSize
		elem := p.data[at : at+elementSize]
		var flags uint32
		var pos, ksize, vsize int64
		if p.flags == flagBranch {
			pos, ksize = int64(native.Uint32(elem)), int64(native.Uint32(elem[4:]))
		} else {
			flags = native.Uint32(elem)
			pos, ksize, vsize = int64(native.Uint32(elem[4:])), int64(native.Uint32(elem[8:])), int64(native.Uint32(elem[12:]))
		}
		start := at + pos
		if start != next || ksize == 0 || ksize > maxKeySize || start+ksize+vsize > p.size {
			return damaged("element %d of page %d is out of place", i, p.id)
		}
		next = start + ksize + vsize
		var key, value []byte
		if end := start + ksize + vsize; end <= int64(len(p.data)) {
			key = p.data[start : start+ksize]
			if i > 0 && bytes.Compare(before, key) >= 0 {
				return damaged("the keys of page %d are out of order", p.id)
			}
			before = key
			if p.flags == flagLeaf {
				value = p.data[start+ksize : end]
			}
		}
		if err := visit(elem, flags, key, value); err != nil {
			return err
		}
	}
	return nil
}
