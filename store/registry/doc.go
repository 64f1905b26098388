// Package registry keeps what a workspace knows beside its transcripts: chats,
// providers, settings and selections, in one bbolt file that is held in memory
// as a whole.
//
// The promises: reads never touch the disk. A change is visible, and its call
// returns, after the commit that holds it; concurrent changes share a commit.
// A failed write fails the changes it held and leaves everything else as it
// was. A damaged file is not opened, and never reset.
package registry
