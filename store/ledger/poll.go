package ledger

// Poll returns the next rows that are there, up to the end of one commit or one
// read. Without any it returns a channel that is closed when it is worth
// looking again. It fails as [Follower.Next] does and never blocks on a commit.
// It is for the follower's own goroutine.
func (f *Follower) Poll() ([]Stored, <-chan struct{}, error) {
	select {
	case <-f.closed:
		return nil, nil, ErrClosed
	default:
	}
	rows, wait, err := f.poll()
	f.next += int64(len(rows))
	return rows, wait, err
}
