// Kinds of failures of a database file, so that a caller can tell a lock from damage.
#pragma once

#include <string>

#include "base/error.h"

namespace tilewright::database {

// The database could not be opened, read or written. Earlier commits are unaffected.
class DatabaseError : public Error {
 public:
  enum class Kind {
    NotFound,      // there is no such file
    Unreadable,    // the file cannot be opened or read at all
    NotADatabase,  // another kind of file, or another program's SQLite database
    Damaged,       // truncated, or its structure is broken
    Newer,         // its schema was written by a later version of this tool
    Locked,        // another process holds it for longer than the busy timeout
    Unwritable,    // read-only file, directory or store
    Full,          // no room on the disk, or a quota or size limit was reached
    Untrusted,     // others may decide its content, or its content is not the pinned one
  };

  DatabaseError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// A record, model or import line that a database must not hold.
class RecordError : public Error {
 public:
  using Error::Error;
};

}  // namespace tilewright::database
