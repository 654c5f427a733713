#include "database/trust/vouch.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>
#include <vector>

#include "database/store.h"
#include "database/store_impl.h"
#include "database/tables/convert.h"

namespace tilewright::database {
namespace {

// The columns of the origins.
enum : size_t { kArtifact, kWorkload, kDigest, kOrigin };

// The claims in the file about a kernel: who vouches for it, or where it came from.
struct Claims {
  struct Signature {
    std::string workload, key, signature;
  };
  std::vector<std::string> digests;   // of code that was made here
  std::vector<Signature> signatures;  // by trusted keys; not verified
  std::string origin;                 // of a kernel that nobody vouches for
};

constexpr const char* kOfKernel = "WHERE artifact_hash = ?1 AND (?2 = '' OR workload_hash = ?2)";

void bind_kernel(Statement& statement, const std::string& artifact, const std::string& workload) {
  statement.bind(1, std::string_view(artifact)).bind(2, std::string_view(workload));
}

Claims claims_of(const StoreImpl& store, const std::string& artifact, const std::string& workload,
                 const std::vector<std::string>& keys) {
  Claims claims;
  if (!store.has(origins_table())) return claims;
  RowScan origins(store.connection, origins_table(), store.version, kOfKernel);
  bind_kernel(origins.statement(), artifact, workload);
  while (origins.next()) {
    const Row& row = origins.row();
    // A damaged index can lead to another row.
    if (!origins.problem().empty() || text_cell(row, kArtifact) != artifact) continue;
    if (!workload.empty() && text_cell(row, kWorkload) != workload) continue;
    if (text_cell(row, kDigest).empty()) {
      claims.origin = text_cell(row, kOrigin);
    } else if (store.distrust.empty()) {
      claims.digests.push_back(text_cell(row, kDigest));
    }
  }
  if (keys.empty()) return claims;
  RowScan signatures(store.connection, table_named("signatures"), store.version, kOfKernel);
  bind_kernel(signatures.statement(), artifact, workload);
  while (signatures.next()) {
    const Row& row = signatures.row();
    if (!signatures.problem().empty() || text_cell(row, 0) != artifact) continue;
    if (!workload.empty() && text_cell(row, 1) != workload) continue;
    const bool trusted = std::find(keys.begin(), keys.end(), text_cell(row, 2)) != keys.end();
    if (trusted)
      claims.signatures.push_back({text_cell(row, 1), text_cell(row, 2), text_cell(row, 3)});
  }
  return claims;
}

bool verified(const Claims& claims, const std::string& digest) {
  return std::any_of(claims.signatures.begin(), claims.signatures.end(), [&](const auto& s) {
    return is_signed(signed_text(digest, s.workload), s.signature, s.key);
  });
}

// The reason why the kernel may not run, and the remedies.
std::string refusal(const StoreImpl& store, const Claims& claims) {
  std::string why = "its code is not trusted: ";
  const std::string sign = "name the key that signed it (--trust KEY)";
  if (!store.distrust.empty()) return why + store.distrust + "; or " + sign;
  why += claims.origin.empty() ? "it was not made here for this workload" : "it " + claims.origin;
  return why + "; 'tune-cli db merge --rebuild --db " + store.connection.path() +
         "' makes it here, tuning makes another, or " + sign;
}

bool exists(const Connection& connection, const std::string& artifact) {
  Statement statement(connection, "SELECT 1 FROM artifacts WHERE hash = ?1",
                      "looking for a kernel");
  return statement.bind(1, std::string_view(artifact)).step();
}

Cell to_cell(const std::string& value) { return value; }

// Every kernel that records name, with the workload of each.
std::vector<std::pair<std::string, std::string>> named_kernels(const Connection& connection,
                                                               const std::string& condition) {
  Statement statement(connection,
                      "SELECT DISTINCT artifact_hash, workload_hash FROM records "
                      "WHERE artifact_hash <> ''" +
                          condition,
                      "looking for kernels");
  std::vector<std::pair<std::string, std::string>> kernels;
  while (statement.step()) {
    const Cell artifact = statement.cell(0), workload = statement.cell(1);
    const auto* a = std::get_if<std::string>(&artifact);
    const auto* w = std::get_if<std::string>(&workload);
    if (a != nullptr && w != nullptr) kernels.emplace_back(*a, *w);
  }
  return kernels;
}

void file_origin(const Connection& connection, int version, const std::string& artifact,
                 const std::string& workload, const std::string& digest,
                 const std::string& origin) {
  replace_row(
      connection, origins_table(), version,
      {to_cell(artifact), to_cell(workload), to_cell(digest), to_cell(origin), now_microseconds()});
}

}  // namespace

std::string code_digest(const Row& artifact) {
  return canonical_row(table_named("artifacts"), 1, artifact).digest();
}

std::string signed_text(const std::string& digest, const std::string& workload_hash) {
  return "tilewright kernel 1\n" + workload_hash + "\n" + digest;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return std::string("on ") + text.data();
}

void vouch(const Connection& connection, int version, const std::string& artifact_hash,
           const std::string& workload_hash, const std::string& digest, const std::string& origin) {
  {
    RowScan present(connection, origins_table(), version,
                    "WHERE artifact_hash = ?1 AND workload_hash = ?2");
    bind_kernel(present.statement(), artifact_hash, workload_hash);
    if (present.next() && present.problem().empty() &&
        text_cell(present.row(), kDigest) == digest) {
      return;
    }
  }
  file_origin(connection, version, artifact_hash, workload_hash, digest, origin);
}

void vouch_for_record(const StoreImpl& store, const std::string& artifact_hash,
                      const std::string& workload_hash) {
  std::string digest;
  {
    RowScan made(store.connection, origins_table(), store.version,
                 "WHERE artifact_hash = ?1 AND workload_hash = ''");
    made.statement().bind(1, std::string_view(artifact_hash));
    if (made.next() && made.problem().empty()) digest = text_cell(made.row(), kDigest);
  }
  if (digest.empty()) return;
  vouch(store.connection, store.version, artifact_hash, workload_hash, digest, "made here");
}

ForeignKernels file_origins(const StoreImpl& store, const std::string& origin) {
  ForeignKernels result;
  const auto unvouched = named_kernels(
      store.connection,
      " AND NOT EXISTS (SELECT 1 FROM origins AS o WHERE o.artifact_hash = records.artifact_hash "
      "AND o.workload_hash = records.workload_hash AND o.digest <> '')");
  for (const auto& [artifact, workload] : unvouched) {
    const Claims claims = claims_of(store, artifact, workload, store.keys);
    if (!claims.signatures.empty()) {
      const Lookup<Row> row = find_row(store, "artifacts", artifact);
      const std::string digest = row ? code_digest(*row.value) : "";
      if (row && verified(claims, digest)) {
        file_origin(store.connection, store.version, artifact, workload, digest,
                    origin + ", signed by a trusted key");
        ++result.adopted;
        continue;
      }
    }
    if (!claims.origin.empty()) continue;
    file_origin(store.connection, store.version, artifact, workload, "", origin);
    ++result.foreign;
  }
  return result;
}

void vouch_for_all(const Connection& connection, int version, const std::string& distrust) {
  const bool trusted = distrust.empty();
  const std::string origin = trusted ? "stood in its owner's file before origins were kept"
                                     : "stood in a file that others could write";
  std::map<std::string, std::string> digests;
  RowScan scan(connection, table_named("artifacts"), version);
  while (scan.next()) {
    if (!scan.problem().empty()) continue;
    const std::string hash = text_cell(scan.row(), 0);
    digests[hash] = trusted ? code_digest(scan.row()) : "";
    if (trusted) file_origin(connection, version, hash, "", digests[hash], origin);
  }
  for (const auto& [artifact, workload] : named_kernels(connection, "")) {
    const auto digest = digests.find(artifact);
    if (digest == digests.end()) continue;
    file_origin(connection, version, artifact, workload, digest->second, origin);
  }
}

namespace {

// The row of a kernel that may run, because the store vouches for it or one of the keys signed it.
Lookup<Row> loadable_row(const StoreImpl& store, const std::string& artifact_hash,
                         const std::string& workload_hash, const std::vector<std::string>& keys) {
  // A serving file has no kernel but those that were let out of a store when it was written, and none is
  // put into it later. So where it is trusted, the checksums of its rows are as good as digests.
  const bool vouched_whole =
      (store.serving || !store.has(origins_table())) && store.distrust.empty();
  if (vouched_whole) return find_row(store, "artifacts", artifact_hash);
  const Claims claims = claims_of(store, artifact_hash, workload_hash, keys);
  const bool claimed = !claims.digests.empty() || !claims.signatures.empty();
  if (!claimed && exists(store.connection, artifact_hash)) {
    return {std::nullopt, refusal(store, claims)};  // its bytes are not even read
  }
  Lookup<Row> row = find_row(store, "artifacts", artifact_hash);
  if (!row) return row;
  const std::string digest = code_digest(*row.value);
  const bool made_here =
      std::find(claims.digests.begin(), claims.digests.end(), digest) != claims.digests.end();
  if (!made_here && !verified(claims, digest)) return {std::nullopt, refusal(store, claims)};
  return row;
}

}  // namespace

Lookup<Artifact> loadable(const StoreImpl& store, const std::string& artifact_hash,
                          const std::string& workload_hash) {
  std::optional<SqlTransaction> snapshot;
  if (!store.serving) snapshot.emplace(store.connection, SqlTransaction::Kind::Read);
  const Lookup<Row> row = loadable_row(store, artifact_hash, workload_hash, store.keys);
  if (!row) return {std::nullopt, row.miss};
  return {artifact_from_row(*row.value), ""};
}

int64_t code_checksum(const Artifact& artifact) {
  Canonical text;
  text.text(artifact.description);
  return static_cast<int64_t>(text.checksum_before(artifact.bytes));
}

Lookup<Artifact> Store::artifact(const std::string& hash, const std::string& workload_hash,
                                 int64_t checksum) const {
  if (!impl_->serving || !impl_->distrust.empty()) return loadable(*impl_, hash, workload_hash);
  Statement found(impl_->connection, "SELECT bytes, description FROM artifacts WHERE hash = ?1",
                  "reading a kernel");
  const std::string name = "the row of " + hash + " in table artifacts";
  if (!found.bind(1, std::string_view(hash)).step()) return {std::nullopt, name + " is missing"};
  const Cell bytes = found.cell(0), description = found.cell(1);
  Artifact artifact;
  artifact.hash = hash;
  if (const auto* blob = std::get_if<Blob>(&bytes)) artifact.bytes = *blob;
  if (const auto* text = std::get_if<std::string>(&description)) artifact.description = *text;
  if (code_checksum(artifact) != checksum) {
    return {std::nullopt, name + " is damaged: its code has another checksum"};
  }
  return {std::move(artifact), ""};
}

int64_t Store::sign(const SigningKey& key) {
  if (!impl_->distrust.empty()) {
    throw DatabaseError(DatabaseError::Kind::Untrusted,
                        "nothing is signed, since others may have made it: " + impl_->distrust);
  }
  Transaction transaction = begin();
  int64_t count = 0;
  for (const auto& [artifact, workload] : named_kernels(impl_->connection, "")) {
    // Skips kernels that only another key vouches for: they must not be signed with this key.
    const Lookup<Row> row = loadable_row(*impl_, artifact, workload, {});
    if (!row) continue;
    join_row(impl_->connection, table_named("signatures"), impl_->version,
             {to_cell(artifact), to_cell(workload), to_cell(key.public_key),
              to_cell(key.sign(signed_text(code_digest(*row.value), workload)))});
    ++count;
  }
  transaction.commit();
  return count;
}

}  // namespace tilewright::database
