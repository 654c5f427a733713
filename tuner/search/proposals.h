// Configs that another program proposes: a search that anybody's optimizer leads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tuner/candidate.h"
#include "tuner/search/outcome.h"

namespace tilewright {

struct ProposedConfig {
  std::string sketch;  // empty: the first one
  std::string config;  // choices, JSON; knobs that it leaves out take their first option
  // Draws a choice anew that is missing or no option, instead of refusing the config.
  bool repair = false;
  std::string tag = {};  // the proposer's own name for it
};

// A knob with all options that were seen. Which knobs there are and what they offer depends on other
// choices, so not every combination fits.
struct KnobOptions {
  std::string name;
  std::vector<Answer> options;
};

// Facts that a proposer is told.
struct ProposalRequest {
  struct Refused {
    ProposedConfig proposed;
    std::string reason;
  };
  struct Told {
    const Outcome& outcome;
    std::string tag;  // of the proposal; empty: the search's own candidate
  };

  const SketchInput& input;
  const std::vector<Sketch>& sketches;
  int count;  // of configs wanted
  std::span<const KnobOptions> knobs;
  std::vector<Told> told;            // measured since the last request
  std::span<const Refused> refused;  // since the last request
};

// The fate of a workload's proposals.
struct ProposalCounts {
  int64_t proposed = 0, refused = 0;
  std::string first_reason = {};  // of a refusal
};

// Gives up to so many configs. None leave the batch to the search.
using Proposer = std::function<std::vector<ProposedConfig>(const ProposalRequest&)>;

// Asks a proposer on behalf of one workload's search. Not thread-safe.
class Proposals {
 public:
  Proposals(CandidateMaker& maker, Proposer proposer, uint64_t seed);

  // The candidates of what is proposed, without those for which `is_new` is false. Asks again, with the
  // reasons, where every config was refused, but no more than three times.
  std::vector<Candidate> ask(int count, const std::vector<Outcome>& outcomes,
                             const std::function<bool(const Candidate&)>& is_new);
  const ProposalCounts& counts() const { return counts_; }

 private:
  void refuse(const ProposedConfig& proposed, std::string reason);
  void look_for_knobs(Trial trial, const Sketch& sketch);
  void look_for_knobs();
  std::vector<ProposalRequest::Told> untold(const std::vector<Outcome>& outcomes);
  // Null: refused, for `*reason`.
  std::optional<Candidate> make(const ProposedConfig& proposed, std::string* reason);

  CandidateMaker& maker_;
  Proposer proposer_;
  Rng rng_;
  std::vector<KnobOptions> knobs_;
  size_t told_ = 0;
  ProposalCounts counts_;
  std::vector<ProposalRequest::Refused> refused_;
  std::map<std::string, std::string> tags_;  // by fingerprint
};

}  // namespace tilewright
