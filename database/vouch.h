// Which kernels may leave the store to be run: those that were made here, or that a trusted key has
// signed. What is vouched for, or signed, is a kernel for a workload: its code and its description,
// by a cryptographic digest, and the hash of the workload that it computes.
#pragma once

#include <string>
#include <string_view>

#include "database/row.h"
#include "database/store.h"

namespace tilewright::database {

class StoreImpl;

// BLAKE2b-256 over the columns that the first schema gave an artifact's row: as long as those are
// all that matters to what runs, it stays true in every version.
std::string code_digest(const Row& artifact);

// What a signature is made of.
std::string signed_text(const std::string& digest, const std::string& workload_hash);

// Files that the code with this digest was made here or is taken as if it were; `origin` says how.
// An empty workload stands for none yet: the kernel's record will say for which.
void vouch(const Connection& connection, int version, const std::string& artifact_hash,
           const std::string& workload_hash, const std::string& digest, const std::string& origin);

// The kernel that a record names was made here: vouches for it as that of the record's workload.
// Does nothing where the kernel was not put here.
void vouch_for_record(const StoreImpl& store, const std::string& artifact_hash,
                      const std::string& workload_hash);

// What came with a merge or an import: kernels that nobody vouches for are filed with their origin,
// those that a trusted key has signed are vouched for.
struct ForeignKernels {
  int64_t foreign = 0;
  int64_t adopted = 0;
};
ForeignKernels file_origins(const StoreImpl& store, const std::string& origin);

// Of a file that an earlier version made: every kernel in it is its owner's where `distrust` is
// empty, else foreign for that reason.
void vouch_for_all(const Connection& connection, int version, const std::string& distrust);

// The artifact of this hash, for the workload (any for ""), when it may run; else why not.
Lookup<Artifact> loadable(const StoreImpl& store, const std::string& artifact_hash,
                          const std::string& workload_hash);

// "on 2026-11-23".
std::string today();

}  // namespace tilewright::database
