// The peers of `bench`: other libraries in plugins, found at run time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/peers/peer.h"

namespace tilewright {

/// An operator that a peer prepared; see runtime/peers/peer.h. Not thread-safe.
class PeerProblem {
 public:
  PeerProblem(const TilewrightPeer* peer, void* problem) : peer_(peer), problem_(problem) {}
  ~PeerProblem();
  PeerProblem(PeerProblem&& other) noexcept
      : peer_(other.peer_), problem_(std::exchange(other.problem_, nullptr)) {}
  PeerProblem& operator=(PeerProblem&&) = delete;

  /// Computes once; the outputs are written when it returns. Throws std::runtime_error with the
  /// peer's name where the peer fails.
  void run();
  /// The code that computes it, in the peer's own words; empty where it does not tell.
  std::string implementation() const { return peer_->implementation(problem_).text; }
  /// Whether that is code which is there to be right, not fast.
  bool is_reference() const { return peer_->implementation(problem_).reference != 0; }

 private:
  const TilewrightPeer* peer_;
  void* problem_;
};

/// An opened plugin. It stays open until the process ends, because its threads may.
class PeerLibrary {
 public:
  /// Every plugin in the folders of `search_path`; of two with one name the first. A plugin that
  /// cannot be opened is left out, with a line in `problems`.
  static std::vector<PeerLibrary> discover(const std::vector<std::filesystem::path>& search_path,
                                           std::vector<std::string>& problems);
  /// $TILEWRIGHT_PEERS (folders separated by ':'), then peers/ beside the program, then
  /// ../lib/tilewright/peers, where the installed ones lie.
  static std::vector<std::filesystem::path> default_search_path();

  std::string_view name() const { return peer_->name; }
  std::string_view version() const { return peer_->version; }

  /// The operator of `spec_json` on the given operands, or nothing with the reason in `reason`.
  std::unique_ptr<PeerProblem> prepare(const std::string& spec_json, int threads,
                                       const std::vector<TilewrightPeerOperand>& operands,
                                       std::string& reason) const;
  /// Ends the spinning of the peer's threads: to be called after each of its turns in an
  /// interleaved measurement.
  void quiesce() const { peer_->quiesce(); }

 private:
  explicit PeerLibrary(const TilewrightPeer* peer) : peer_(peer) {}

  const TilewrightPeer* peer_;
};

}  // namespace tilewright
