// Decides which kernels may leave the store to be run: those made here, and those that a trusted
// key has signed. The object of a claim or signature is a kernel for a workload. It consists of the
// cryptographic digest of code and description, and the hash of the workload.
#pragma once

#include <string>
#include <string_view>

#include "database/store.h"
#include "database/tables/row.h"

namespace tilewright::database {

class StoreImpl;

// BLAKE2b-256 over the columns of an artifact's row in the first schema. It stays valid in every
// version as long as only those columns affect what runs.
std::string code_digest(const Row& artifact);

// The text that is signed.
std::string signed_text(const std::string& digest, const std::string& workload_hash);

// Records that the code with this digest was made here, or is to be treated so; `origin` gives the
// reason. An empty workload means none yet: the kernel's record will name it.
void vouch(const Connection& connection, int version, const std::string& artifact_hash,
           const std::string& workload_hash, const std::string& digest, const std::string& origin);

// Vouches for a kernel that a record names and that was made here, as a kernel of the record's
// workload. Does nothing where the kernel was not put here.
void vouch_for_record(const StoreImpl& store, const std::string& artifact_hash,
                      const std::string& workload_hash);

// Kernels that came with a merge or an import. Kernels with a trusted key's signature are vouched
// for; the others are recorded with their origin.
struct ForeignKernels {
  int64_t foreign = 0;
  int64_t adopted = 0;
};
ForeignKernels file_origins(const StoreImpl& store, const std::string& origin);

// For a file of an earlier version: every kernel in it is the owner's where `distrust` is
// empty, and otherwise as foreign for that reason.
void vouch_for_all(const Connection& connection, int version, const std::string& distrust);

// The artifact of this hash for the workload (any for ""), when it may run; otherwise the reason.
Lookup<Artifact> loadable(const StoreImpl& store, const std::string& artifact_hash,
                          const std::string& workload_hash);

// The current date: "on 2026-11-23".
std::string today();

}  // namespace tilewright::database
