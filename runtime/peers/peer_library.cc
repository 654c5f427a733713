#include "runtime/peers/peer_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/knobs.h"
#include "kernel/cpu_features.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPluginPrefix = "libtilewright_peer_";

std::vector<fs::path> plugins_in(const fs::path& folder) {
  std::vector<fs::path> plugins;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with(kPluginPrefix) && entry.path().extension() == ".so") {
      plugins.push_back(entry.path());
    }
  }
  std::sort(plugins.begin(), plugins.end());
  return plugins;
}

// Throws std::runtime_error that tells what is wrong with the plugin.
const TilewrightPeer* open_plugin(const fs::path& plugin) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  auto entry = reinterpret_cast<TilewrightPeerEntry>(dlsym(library, TILEWRIGHT_PEER_ENTRY));
  if (entry == nullptr) throw std::runtime_error(plugin.string() + ": not a peer");
  const TilewrightPeer* peer = entry();
  if (peer->abi != TILEWRIGHT_PEER_ABI) {
    throw std::runtime_error(plugin.string() + ": built for version " + std::to_string(peer->abi) +
                             " of the interface; this program has " +
                             std::to_string(TILEWRIGHT_PEER_ABI));
  }
  return peer;
}

// OpenBLAS reads its environment when it is loaded. Its idle workers sleep after 2^22 cycles, not
// 2^26. Debian 12's 0.3.21 takes Intel chips that came after it for a Pentium 4: there the chip's
// features choose the kernels, as OpenBLAS itself does for the chips that it knows.
void prepare_openblas() {
  setenv("OPENBLAS_THREAD_TIMEOUT", "22", 0);
  if (cpu_signature().rfind("GenuineIntel", 0) != 0) return;
  const std::set<std::string>& features = cpu_features();
  if (features.count("avx512vl") > 0) {
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  } else if (features.count("avx2") > 0) {
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  }
}

}  // namespace

PeerProblem::~PeerProblem() {
  if (problem_ != nullptr) peer_->destroy(problem_);
}

void PeerProblem::run() {
  if (peer_->run(problem_) != 0) {
    throw std::runtime_error(std::string(peer_->name) + " failed to run");
  }
}

std::vector<fs::path> PeerLibrary::default_search_path() {
  std::vector<fs::path> path;
  std::istringstream folders(knob_text(Knob::Peers));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty()) path.emplace_back(folder);
  }
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    path.push_back(program.parent_path() / "peers");
    path.push_back(program.parent_path().parent_path() / "lib" / "tilewright" / "peers");
  }
  return path;
}

std::vector<PeerLibrary> PeerLibrary::discover(const std::vector<fs::path>& search_path,
                                               std::vector<std::string>& problems) {
  prepare_openblas();
  std::vector<PeerLibrary> libraries;
  std::vector<std::string> seen;
  for (const fs::path& folder : search_path) {
    for (const fs::path& plugin : plugins_in(folder)) {
      const std::string file = plugin.filename().string();
      if (std::find(seen.begin(), seen.end(), file) != seen.end()) continue;
      seen.push_back(file);
      try {
        libraries.push_back(PeerLibrary(open_plugin(plugin)));
      } catch (const std::runtime_error& error) {
        problems.push_back(error.what());
      }
    }
  }
  return libraries;
}

std::unique_ptr<PeerProblem> PeerLibrary::prepare(
    const std::string& spec_json, int threads, const std::vector<TilewrightPeerOperand>& operands,
    std::string& reason) const {
  std::array<char, 512> text{};
  void* problem = peer_->prepare(spec_json.c_str(), threads, operands.data(),
                                 static_cast<int>(operands.size()), text.data(), text.size());
  if (problem == nullptr) {
    reason = text.data();
    return nullptr;
  }
  return std::make_unique<PeerProblem>(peer_, problem);
}

}  // namespace tilewright
