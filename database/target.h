// Which kernels may serve a machine, and how near they are to what it asks for.
//
// A kernel follows its code: it may serve wherever the instruction sets are that the code uses. It is a
// hit where the chip's family and model and the caches of a core are those of the machine that tuned
// it. How many processors a process may use tells machines apart in no way: threads are a property of
// the kernel.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "database/record.h"

namespace tilewright::database {

// What tells a chip: "family 25 model 17" of "AMD EPYC 9B14 (family 25 model 17)", since virtual
// machines give one chip many names; the whole text where it does not end so.
std::string chip_model(const std::string& chip);

// The identity under which a stored target is found. Earlier versions told the machines of CPU kernels
// apart by the chip's name, the number of cores and the shared cache as well, which depend on how a
// virtual machine is cut; what was stored under these is read without them. Any other identity is
// given back as it is.
TargetIdentity identity_today(TargetIdentity stored);

// Whether kernels of `stored` may serve where kernels of `here` are asked for: of a CPU where `here` has
// all their instruction sets, of a GPU where the architecture is the same.
bool may_serve(const TargetIdentity& stored, const TargetIdentity& here);

// "tuned for another chip: 'A', this is 'B'", for the first of chip, instruction sets and the rest that
// differs; empty for equal hashes.
std::string target_difference(const TargetIdentity& stored, const TargetIdentity& here);

// How the answers of lacking_features() begin.
inline constexpr std::string_view kLacking = "its code needs ";
// How BestResult::passed_over begins where that keeps the tuned kernel from serving.
inline constexpr std::string_view kTunedLacking = "the tuned kernel does not run here: ";

// What the code of a CPU kernel needs of a processor: what the compiler was told that it may use (its
// flags -mNAME), and what the kernel's description names. By the names of cpu_features(). Empty for a
// GPU's.
std::set<std::string> needed_features(const Artifact& artifact);

// The part of them that the flags say.
std::set<std::string> flag_features(const std::string& flags);

// "its code needs avx512vnni, which this processor lacks"; empty where it lacks nothing.
std::string lacking_features(const Artifact& artifact, const std::set<std::string>& processor);
std::string lacking_features(const std::set<std::string>& needed,
                             const std::set<std::string>& processor);

// For how many threads a kernel is asked for.
struct ThreadsAsked {
  int threads = 0;     // 0: any number
  int processors = 1;  // that the process may use at once

  // The most threads that have a processor each and are asked for.
  int most() const;
  // Whether a kernel for so many threads is what was asked for.
  bool met_by(int tuned_for) const { return difference(tuned_for).empty(); }
  // "tuned for 2 threads, not for 1"; "tuned for 2 threads, this process may use 1 processor".
  std::string difference(int tuned_for) const;
};

// How far a kernel is from what is asked for: less is nearer. What nobody tuned is the farthest; then
// come the target (instruction sets before the chip before the rest), threads that have no processor
// of their own, and the time that it took.
struct Nearness {
  bool is_default = false;
  int target = 0;
  int threads_beyond = 0;
  double seconds = 0;
  int fewer_threads = 0;  // among equals the most threads are nearest

  auto operator<=>(const Nearness&) const = default;  // NOLINT(modernize-use-nullptr)
};
Nearness nearness(const TargetIdentity& stored, const TargetIdentity& here, int tuned_for,
                  const ThreadsAsked& asked, double seconds, bool is_default);

}  // namespace tilewright::database
