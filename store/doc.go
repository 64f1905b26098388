// Package store opens garcon's durable state: the lease on the config root, the
// registry, the transcript ledgers and the attachments of a workspace.
//
// Nothing below the root is touched before the role's lease is held, so two
// processes never share a file.
package store
