#include "serving/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/ops/dim_name.h"
#include "serving/operand.h"
#include "serving/status.h"

namespace tilewright::serving {
namespace {

bool holds(const DimSize& outer, const DimSize& inner) {
  return outer.min <= inner.min && inner.max <= outer.max;
}

// Whether a kernel that was made for `made_for` computes what `asked` says at these sizes of the
// dynamic dimensions: all else is the same, and dynamic dimensions hold the sizes.
bool covers(const Spec& made_for, const Spec& asked, const std::map<std::string, DimSize>& box) {
  if (made_for.op != asked.op || made_for.params.size() != asked.params.size()) return false;
  for (const auto& [key, value] : made_for.params) {
    auto other = asked.params.find(key);
    if (other == asked.params.end() || other->second.index() != value.index()) return false;
    bool is_size = std::holds_alternative<DimSize>(value) ||
                   std::holds_alternative<std::vector<DimSize>>(value);
    if (!is_size && value != other->second) return false;
  }
  const auto made_sizes = sizes_of(made_for), asked_sizes = sizes_of(asked);
  if (made_sizes.size() != asked_sizes.size()) return false;
  for (const auto& [name, size] : made_sizes) {
    auto asked_size = asked_sizes.find(name);
    if (asked_size == asked_sizes.end()) return false;
    if (asked_size->second.is_dynamic() && !size.is_dynamic()) return false;
    auto in_box = box.find(name);
    if (!holds(size, in_box == box.end() ? asked_size->second : in_box->second)) return false;
  }
  return true;
}

DimSize overlap(const DimSize& a, const DimSize& b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max)};
}

// Of the sizes that are asked for, those that a kernel of `made_for` takes.
Box served_box(const StoredWorkload& made_for, const Request& request) {
  Box box;
  if (request.dims.empty()) return box;
  const auto sizes = sizes_of(parse_spec(made_for.canonical));
  for (const Dim& d : request.dims) box.push_back(overlap(sizes.at(d.name), {d.min, d.max}));
  return box;
}

bool same_device(const StoredKernel& kernel, const Request& request) {
  return kernel.target.hash == request.identity.hash;
}

// Why a kernel is not what was asked for; empty where it is.
std::string difference(const StoredKernel& kernel, const Request& request) {
  const std::string target = database::target_difference(kernel.target, request.identity);
  const std::string threads = request.threads.difference(kernel.threads);
  return target + (target.empty() || threads.empty() ? "" : "; ") + threads;
}

// What was measured in different runs, and so in different hours of the machine, is told apart only
// beyond this share.
constexpr double kBetweenRuns = 0.05;

// The longest time that the range's kernel was measured to take for no more work than these sizes are;
// 0: it was not.
double at_least(const StoredRanges::Range& range, const database::Sizes& sizes) {
  double seconds = 0;
  for (const auto& [measured, time] : range.measured) {
    const bool no_larger = std::all_of(measured.begin(), measured.end(), [&](const auto& size) {
      return size.second <= sizes.at(size.first);
    });
    if (no_larger) seconds = std::max(seconds, time);
  }
  return seconds;
}

// The sizes of a box that is one of each dimension.
std::optional<database::Sizes> single_sizes(const Request& request, const Box& box) {
  database::Sizes sizes;
  for (size_t d = 0; d < box.size(); ++d) {
    if (box[d].is_dynamic()) return std::nullopt;
    sizes[request.dims[d].name] = box[d].min;
  }
  return sizes;
}

class Finder {
 public:
  Finder(const Table& table, const Request& request, const Box& box)
      : request_(request), own_(table.find(request.hash)) {
    std::map<std::string, DimSize> sizes;
    for (size_t d = 0; d < request.dims.size(); ++d) sizes[request.dims[d].name] = box[d];
    if (own_ != nullptr && !request.dims.empty()) {
      single_ = single_sizes(request, box);
      if (single_) fixed_ = table.find(make_workload(fixed_at(request.spec(), *single_)).hash());
    }
    if (!table.has_dynamic()) return;
    for (const StoredWorkload* other : table.dynamic(request.spec().op)) {
      if (other != own_ && covers(other->spec, request.spec(), sizes)) others_.push_back(other);
    }
    // The narrower the range, the nearer.
    std::stable_sort(others_.begin(), others_.end(),
                     [](const StoredWorkload* a, const StoredWorkload* b) {
                       return width(a->spec) < width(b->spec);
                     });
  }

  std::vector<Candidate> find() {
    if (own_ != nullptr) {
      if (fixed_ != nullptr) add_fixed(*own_, *fixed_);
      add_hits(*own_);
      add_near(*own_, Measured::Here, "");
    }
    for (const StoredWorkload* other : others_) {
      add_measured(*other, fmt::format("made for {}", other->text()));
    }
    if (counts_elsewhere()) {
      if (own_ != nullptr) add_near(*own_, Measured::Elsewhere, "");
      for (const StoredWorkload* other : others_) {
        add_near(*other, Measured::Elsewhere, fmt::format("made for {}; ", other->text()));
      }
    }
    if (own_ != nullptr) add_generated(*own_, "");
    for (const StoredWorkload* other : others_) {
      add_generated(*other, fmt::format("made for {}; ", other->text()));
    }
    return std::move(found_);
  }

 private:
  enum class Measured : uint8_t { Here, Elsewhere };

  static double width(const Spec& spec) {
    double product = 1;
    for (const auto& [name, size] : sizes_of(spec)) {
      product *= static_cast<double>(size.max - size.min + 1);
    }
    return product;
  }

  // Whether a measurement on another chip says which kernel is fast here. On another GPU it only
  // chooses the kernel to begin with.
  bool counts_elsewhere() const { return !request_.target.is_cuda(); }
  bool threads_match(int threads) const { return request_.threads.met_by(threads); }

  void add(tw_outcome outcome, const StoredWorkload& workload, const StoredKernel& kernel,
           std::string reason) {
    found_.push_back(
        {outcome, &workload, &kernel, served_box(workload, request_), std::move(reason)});
  }

  // Whether any of the sizes that are asked for, fixed ones among them, lie in the range.
  bool meets(const std::map<std::string, DimSize>& range) const {
    const auto asked = sizes_of(request_.spec());
    return std::all_of(range.begin(), range.end(), [&](const auto& part) {
      const DimSize met = overlap(asked.at(part.first), part.second);
      return met.min <= met.max;
    });
  }

  // The kernels of the ranges that hold what is asked for, each with its reason.
  template <class ReasonOf>
  void add_ranges(const StoredWorkload& workload, const StoredRanges& ranges, tw_outcome outcome,
                  const ReasonOf& reason_of) {
    for (const StoredRanges::Range& range : ranges.ranges) {
      if (!meets(range.sizes)) continue;
      add(outcome, workload, range.kernel, reason_of(range.kernel));
      for (size_t d = 0; d < request_.dims.size(); ++d) {
        const auto part = range.sizes.find(request_.dims[d].name);
        if (part == range.sizes.end()) continue;
        found_.back().box[d] = overlap(found_.back().box[d], part->second);
      }
    }
  }

  // Of a workload whose sizes were told apart by measuring here; else null.
  const StoredRanges* measured_ranges(const StoredWorkload& workload) const {
    for (const StoredRanges& ranges : workload.ranges) {
      const bool here = ranges.target.hash == request_.identity.hash && !ranges.offline;
      if (here && threads_match(ranges.threads)) return &ranges;
    }
    return nullptr;
  }

  void add_measured_ranges(const StoredWorkload& workload, tw_outcome outcome,
                           const std::string& reason) {
    if (const StoredRanges* ranges = measured_ranges(workload)) {
      add_ranges(workload, *ranges, outcome, [&](const auto&) { return reason; });
    }
  }

  // The kernel that was tuned for one size of each dimension alone, where it is surely faster than the
  // one that the table has for it.
  void add_fixed(const StoredWorkload& workload, const StoredWorkload& fixed) {
    const StoredRanges* ranges = measured_ranges(workload);
    if (ranges == nullptr || ranges->one_order) return;
    const auto range = std::find_if(
        ranges->ranges.begin(), ranges->ranges.end(), [&](const StoredRanges::Range& r) {
          return std::all_of(r.sizes.begin(), r.sizes.end(), [&](const auto& part) {
            return holds(part.second, {single_->at(part.first), single_->at(part.first)});
          });
        });
    if (range == ranges->ranges.end()) return;
    for (const StoredKernel& k : fixed.kernels) {
      const bool measured = same_device(k, request_) && !k.offline && k.threads == ranges->threads;
      if (!measured || k.seconds <= 0) continue;
      if (k.seconds * (1 + kBetweenRuns) >= at_least(*range, *single_)) return;
      add(TW_HIT, fixed, k, "");
      found_.back().in_place_of = &range->kernel;
      return;
    }
  }

  // An untuned default that won against other kernels is as good as any.
  void add_hits(const StoredWorkload& workload) {
    add_measured_ranges(workload, TW_HIT, "");
    for (const StoredKernel& k : workload.kernels) {
      const bool tuned = !k.is_default || k.compared;
      if (tuned && same_device(k, request_) && !k.offline && threads_match(k.threads)) {
        add(TW_HIT, workload, k, "");
      }
    }
  }

  database::Nearness nearness(const StoredKernel& k) const {
    return database::nearness(k.target, request_.identity, k.threads, request_.threads, k.seconds,
                              k.is_default);
  }

  // What was tuned here for other threads, or elsewhere: the nearest first, of each the ranges before
  // the kernel for all sizes.
  void add_near(const StoredWorkload& workload, Measured where, const std::string& prefix) {
    std::vector<const StoredKernel*> kernels;
    for (const StoredKernel& k : workload.kernels) {
      const bool here = same_device(k, request_);
      const bool wanted = where == Measured::Here ? here && !threads_match(k.threads) : !here;
      const bool tuned = !k.offline && !k.is_default;
      if (wanted && tuned && database::may_serve(k.target, request_.identity))
        kernels.push_back(&k);
    }
    std::stable_sort(
        kernels.begin(), kernels.end(),
        [&](const StoredKernel* a, const StoredKernel* b) { return nearness(*a) < nearness(*b); });
    for (const StoredKernel* k : kernels) {
      const std::string reason = prefix + difference(*k, request_);
      for (const StoredRanges& ranges : workload.ranges) {
        const bool its = ranges.target.hash == k->target.hash && ranges.threads == k->threads;
        if (!its || ranges.offline) continue;
        add_ranges(workload, ranges, TW_NEAR,
                   [&](const auto&) -> const std::string& { return reason; });
      }
      add(TW_NEAR, workload, *k, reason);
    }
  }

  void add_measured(const StoredWorkload& workload, const std::string& reason) {
    add_measured_ranges(workload, TW_NEAR, reason);
    for (const StoredKernel& k : workload.kernels) {
      if (same_device(k, request_) && !k.offline && threads_match(k.threads)) {
        add(TW_NEAR, workload, k, reason);
      }
    }
    add_near(workload, Measured::Here, reason + "; ");
  }

  // Why a kernel that may serve was not chosen by measuring here; nothing for one that was, or that
  // does not run here.
  std::optional<std::string> why_generated(const StoredKernel& k) const {
    if (!database::may_serve(k.target, request_.identity)) return std::nullopt;
    if (k.offline && k.is_default) return "the untuned default, never measured";
    if (k.offline) return "chosen by a model, never measured";
    const std::string less = difference(k, request_);
    if (k.is_default && less.empty() && !k.compared) return "the untuned default";
    if (less.empty()) return std::nullopt;
    if (k.is_default) return "the untuned default; " + less;
    if (!counts_elsewhere() && !same_device(k, request_)) return less;
    return std::nullopt;
  }

  // What was measured elsewhere before what a model has ranked; of each the ranges first.
  void add_generated(const StoredWorkload& workload, const std::string& prefix) {
    for (bool offline : {false, true}) {
      for (const StoredRanges& ranges : workload.ranges) {
        if (ranges.offline != offline || counts_elsewhere()) continue;
        // All are of one target.
        if (!why_generated(ranges.ranges.front().kernel)) continue;
        add_ranges(workload, ranges, TW_DEFAULT,
                   [&](const StoredKernel& k) { return prefix + *why_generated(k); });
      }
      for (const StoredKernel& k : workload.kernels) {
        if (k.offline != offline) continue;
        if (const auto reason = why_generated(k)) add(TW_DEFAULT, workload, k, prefix + *reason);
      }
    }
  }

  const Request& request_;
  const StoredWorkload* own_;
  std::optional<database::Sizes> single_;  // of a box that is one size of each dimension,
  const StoredWorkload* fixed_ = nullptr;  // and the workload of these alone
  std::vector<const StoredWorkload*> others_;
  std::vector<Candidate> found_;
};

bool needs_quotes(const std::string& text) {
  return text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
             "_-./:=,+@%") != std::string::npos;
}

std::string quoted(const std::string& text) {
  if (!text.empty() && !needs_quotes(text)) return text;
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

const Spec& Request::spec() const {
  if (parsed == nullptr) parsed = std::make_shared<const Spec>(parse_spec(text));
  return *parsed;
}

Spec fixed_at(const Spec& spec, const database::Sizes& sizes) {
  Spec fixed = spec;
  const auto fix = [&](DimSize& size, const std::string& name) {
    const auto named = sizes.find(name);
    if (size.is_dynamic() && named != sizes.end()) size = {named->second, named->second};
  };
  for (auto& [key, value] : fixed.params) {
    if (auto* size = std::get_if<DimSize>(&value)) fix(*size, dim_name(key));
    if (auto* shape = std::get_if<std::vector<DimSize>>(&value)) {
      for (size_t d = 0; d < shape->size(); ++d) fix((*shape)[d], dim_name(key, d));
    }
  }
  return fixed;
}

SpecFacts facts_of(const std::string& text, const Workload& workload) {
  SpecFacts facts{text, workload.hash(), {}, {}};
  for (const DimVar& d : workload.dims) facts.dims.push_back({d.var.name(), d.min, d.max});
  for (const Param& p : workload.inputs) facts.operands.push_back(p.buffer->name);
  facts.operands.push_back(workload.output()->name);
  return facts;
}

Request make_request(const std::string& text, const Target& target,
                     const database::TargetIdentity& identity,
                     const database::ThreadsAsked& threads) {
  auto spec = std::make_shared<const Spec>(parse_spec(text));
  Request request{facts_of(text, make_workload(*spec)), target, identity, threads, std::move(spec)};
  if (request.dims.size() > kMaxDims) {
    throw ServingError(TW_ERROR_SPEC,
                       fmt::format("{}: {} dynamic dimensions; at most {} are served", text,
                                   request.dims.size(), kMaxDims));
  }
  return request;
}

std::map<std::string, DimSize> sizes_of(const Spec& spec) {
  std::map<std::string, DimSize> sizes;
  for (const auto& [key, value] : spec.params) {
    if (auto* size = std::get_if<DimSize>(&value)) {
      sizes[dim_name(key)] = *size;
    } else if (auto* shape = std::get_if<std::vector<DimSize>>(&value)) {
      for (size_t d = 0; d < shape->size(); ++d) sizes[dim_name(key, d)] = (*shape)[d];
    }
  }
  return sizes;
}

std::vector<Candidate> candidates(const Table& table, const Request& request, const Box& box) {
  return Finder(table, request, box).find();
}

std::string lacking_reason(const Table& table, const Request& request) {
  const StoredWorkload* own = table.find(request.hash);
  if (own == nullptr) return "";
  for (const StoredKernel& k : own->kernels) {
    const bool here = same_device(k, request) && request.threads.met_by(k.threads);
    if (here && !k.passed_over.empty()) return k.passed_over;
  }
  const auto trouble = own->troubles.find(request.identity.hash);
  const bool lacks =
      trouble != own->troubles.end() && trouble->second.starts_with(database::kLacking);
  return lacks ? trouble->second : "";
}

std::string miss_reason(const Table& table, const Request& request) {
  const StoredWorkload* own = table.find(request.hash);
  if (own == nullptr) return "never tuned: the database has no record of it";
  const bool tuned_here =
      std::any_of(own->targets.begin(), own->targets.end(),
                  [&](const auto& target) { return target.hash == request.identity.hash; });
  const auto trouble = own->troubles.find(request.identity.hash);
  if (tuned_here && trouble != own->troubles.end()) return trouble->second;
  for (const database::TargetIdentity& target : own->targets) {
    if (target.hash != request.identity.hash) {
      return database::target_difference(target, request.identity);
    }
  }
  if (own->targets.empty()) {
    return fmt::format("no valid candidate was found for it: {} failed", own->failures);
  }
  return "no artifact was kept for it";
}

std::string tune_command(const Table& table, const Request& request) {
  // A serving file is made anew, of a database that it does not name.
  std::string command =
      table.is_model()
          ? fmt::format("tune-cli compile MODEL -o {} --db DATABASE", quoted(table.path()))
          : fmt::format("tune-cli tune {} --db {}", quoted(spec_to_inline(request.spec())),
                        table.is_serving_file() ? "DATABASE" : quoted(table.path()));
  const Target native = Target::parse("native");
  if (request.target.name != native.name) command += " --target " + request.target.name;
  if (request.threads.threads > 0 && request.target.has_threads) {
    command += fmt::format(" --threads {}", request.threads.most());
  }
  return command;
}

std::string box_text(const std::vector<Dim>& dims, const Box& box) {
  std::string text;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!text.empty()) text += ", ";
    text += box[d].is_dynamic() ? fmt::format("{}={}..{}", dims[d].name, box[d].min, box[d].max)
                                : fmt::format("{}={}", dims[d].name, box[d].min);
  }
  return text;
}

}  // namespace tilewright::serving
