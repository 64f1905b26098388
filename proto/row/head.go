package row

// Abridge returns the row with its texts cut to about budget bytes in all, each
// cut marked visibly. It changes the body in place: the row must be the
// caller's own and not shared. A row of an unknown kind loses every member but
// those of the head.
func (r Row) Abridge(budget int) Row {
	if o, ok := r.Body.(*Opaque); ok {
		r.Body = &Opaque{Type: o.Type, Members: []byte("{}")}
		return r
	}
	r.Body.clean(budget)
	return r
}
