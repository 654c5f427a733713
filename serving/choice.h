// Which kernels of a table may serve a spec, best first, and why each is less than the best.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "database/target.h"
#include "kernel/target.h"
#include "serving/table.h"
#include "tilewright/tilewright.h"

namespace tilewright::serving {

// Sizes of each dynamic dimension of a spec, in its order.
using Box = std::vector<DimSize>;

struct Dim {
  std::string name;
  int64_t min = 1, max = 1;
};

// A spec's text, and all that a launch needs of it: a model file's index has them, so that nothing is parsed.
struct SpecFacts {
  std::string text;  // as it was given
  std::string hash;
  std::vector<Dim> dims;              // dynamic ones
  std::vector<std::string> operands;  // inputs, then the output
};
SpecFacts facts_of(const std::string& text, const Workload& workload);

// A spec that is asked for, and for what.
struct Request : SpecFacts {
  Target target;
  database::TargetIdentity identity;
  database::ThreadsAsked threads;

  // Parsed when it is asked for, by one thread at a time.
  const Spec& spec() const;
  mutable std::shared_ptr<const Spec> parsed = nullptr;
};

// Throws SpecError, and ServingError for more dynamic dimensions than a launch takes.
Request make_request(const std::string& text, const Target& target,
                     const database::TargetIdentity& identity,
                     const database::ThreadsAsked& threads);

// The spec with these sizes of its dynamic dimensions, by their names.
Spec fixed_at(const Spec& spec, const database::Sizes& sizes);

// The sizes of a spec by the names of their dimensions, as kernels call them: fixed ones, too.
std::map<std::string, DimSize> sizes_of(const Spec& spec);

struct Candidate {
  tw_outcome outcome = TW_HIT;
  const StoredWorkload* made_for = nullptr;
  const StoredKernel* kernel = nullptr;
  Box box;             // of the request's sizes: those that it serves
  std::string reason;  // why it is no hit; empty for a hit
  // Of a kernel for fixed sizes in the place of one for ranges: that one, whose operands say how their
  // shapes follow from the sizes.
  const StoredKernel* in_place_of = nullptr;
};

// Kernels for the sizes of `box`, best first: the one that was tuned for the spec here; one that was
// tuned here with other threads, or for a range of sizes that holds these; of a CPU one that was tuned
// on another machine and uses no instruction sets but those of this one; one that was generated and
// not chosen here. The nearest of them come first (database/target.h). A hit comes as its ranges, where measurements have told them apart: then
// several of them make up the box. Where the box is one size of each dimension, a kernel that was tuned
// for these alone goes before that of their range if it is surely faster: by 5% of what the range's
// kernel was measured to take at sizes that are no larger. Not so where the table keeps one order of
// sums for all sizes.
std::vector<Candidate> candidates(const Table& table, const Request& request, const Box& box);

// Why the kernel that was tuned for the request here does not run on this processor; empty where it
// does, or where there is none.
std::string lacking_reason(const Table& table, const Request& request);

// Why there is none.
std::string miss_reason(const Table& table, const Request& request);

// "tune-cli tune 'SPEC' --db FILE …"; of a model "tune-cli compile MODEL -o FILE …".
std::string tune_command(const Table& table, const Request& request);

// "m=1..64, n=8"; "" without dynamic dimensions.
std::string box_text(const std::vector<Dim>& dims, const Box& box);

}  // namespace tilewright::serving
