#include "cli/models/narrowing.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/models/samples.h"
#include "codegen/intrinsics/intrinsics.h"
#include "kernel/target.h"
#include "runtime/check/reference.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

constexpr size_t kNamed = 3;              // products that a message names
constexpr int kFirstNarrowProducts = 80;  // compute capability of GPUs with products of bf16

// Why the text names no precision; empty where it does.
std::string problem_of(const std::string& precision) {
  try {
    graph::Precision::parse(precision);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// Throws UsageError where the target has no instructions for products of bf16.
void require_products(const graph::Precision& precision, const CommonOptions& options) {
  if (precision.factors != ElemType::bf16) return;
  const Target target = Target::parse(options.target);
  if (target.is_cuda()) {
    if (target.gpu.compute_capability >= kFirstNarrowProducts) return;
    throw UsageError(fmt::format(
        "--precision {}: target '{}' has no instructions for such products, which came with sm_{}",
        precision.text, target.name, kFirstNarrowProducts));
  }
  const bool has = std::ranges::any_of(intrinsics_of(target), [&](const Intrinsic* row) {
    return row->semantics().operands()[1]->elem == precision.factors;
  });
  if (has) return;
  throw UsageError(fmt::format(
      "--precision {0}: this processor has no instructions for products of {0}, which are those of "
      "avx512bf16 and of amx-bf16; --precision f32 computes in f32",
      precision.text));
}

}  // namespace

void add_narrowing(CLI::App& command, NarrowingArguments& arguments) {
  command
      .add_option(
          "--precision", arguments.precision,
          "Factors of products and convolutions: f32, bf16, i8, or the type of weights with "
          "the terms that share a scale, such as u4:128 (i8:-1: whole columns; u4:128:i8: "
          "activations of i8, too); sums and all else stay f32")
      ->type_name("TYPE")
      ->check([](const std::string& text) { return problem_of(text); })
      ->capture_default_str();
  command
      .add_option(
          "--tolerance", arguments.tolerance,
          "Compare the outputs with the model's in f32, and refuse a larger difference, as a "
          "share of the largest magnitude; by default 0.03 with bf16, 0.05 with i8 and weights "
          "of 8 bits, 0.3 with fewer bits. As few products as it takes stay f32")
      ->type_name("SHARE")
      ->check(CLI::PositiveNumber);
  command
      .add_option(
          "--in", arguments.in,
          "Array of an input to compare on, in the place of random elements; each several "
          "times for several samples. With --precision i8 their ranges give the scales of what "
          "is calculated, which each run finds by itself without them")
      ->type_name("NAME=FILE.npy")
      ->take_all();
}

Narrowing::Narrowing(const graph::Graph& model, const NarrowingArguments& arguments,
                     const CommonOptions& options)
    : arguments_(arguments), precision_(graph::Precision::parse(arguments.precision)),
      threads_(thread_count(options)) {
  require_products(precision_, options);
  if (!arguments_.in.empty() && !compares()) {
    throw UsageError("--in: nothing is compared; expected --precision or --tolerance beside it");
  }
  if (!compares()) return;
  samples_ = arguments_.in.empty() ? random_samples(model) : read_samples(model, arguments_.in);
  if (!precision_.is_narrow()) return;
  ThreadPool pool(threads_);
  const auto parallel = parallel_on(pool);
  const bool measured = !arguments_.in.empty() && precision_.factors == ElemType::i8;
  if (measured) ranges_ = graph::ranges_of(model, samples_, parallel);
  choice_ = graph::choose_products(model, precision_, measured ? &ranges_ : nullptr, samples_,
                                   tolerance(), parallel);
  if (!choice_.errors.empty() && choice_.kept.size() == choice_.errors.size()) {
    throw ToleranceError(
        fmt::format("--precision {}: output '{}' is off by {:.2g} of its largest magnitude on {}, "
                    "and by more than "
                    "the tolerance of {:.2g} with any product of that precision; {}; {}",
                    precision_.text, choice_.output, choice_.error_of_all, inputs_text(),
                    tolerance(), worst_text(), advice()));
  }
}

void Narrowing::apply(graph::Graph* graph) const {
  if (!precision_.is_narrow()) return;
  ThreadPool pool(threads_);
  graph::apply(graph, precision_, ranges_.empty() ? nullptr : &ranges_, choice_.kept,
               parallel_on(pool));
}

double Narrowing::tolerance() const {
  return arguments_.tolerance > 0 ? arguments_.tolerance : precision_.tolerance();
}

void Narrowing::describe(nlohmann::ordered_json* said) const {
  (*said)["precision"] = precision_.text;
  if (!precision_.is_narrow()) return;
  (*said)["products"] = choice_.errors.size() - choice_.kept.size();
  nlohmann::ordered_json kept = nlohmann::ordered_json::array();
  for (size_t i = 0; i < choice_.kept.size(); ++i) {
    kept.push_back({{"node", choice_.errors[i].label}, {"error", choice_.errors[i].error}});
  }
  (*said)["kept"] = std::move(kept);
  (*said)["others"] = choice_.others;
}

std::string Narrowing::text(const ModelError& error) const {
  std::string lines =
      fmt::format("{}: outputs are off by {:.2g} of their largest magnitude, on {}\n",
                  precision_.text, error.worst, inputs_text());
  if (!precision_.is_narrow()) return lines;
  const size_t all = choice_.errors.size() + static_cast<size_t>(choice_.others);
  lines += fmt::format("{}: {} of {} products\n", precision_.text,
                       choice_.errors.size() - choice_.kept.size(), all);
  if (choice_.others > 0) {
    lines +=
        fmt::format("{} stay f32, which have another form or would gain nothing\n", choice_.others);
  }
  if (!choice_.kept.empty()) {
    lines += fmt::format(
        "{} stay f32, so that the tolerance of {:.2g} holds; without them outputs "
        "would be off by {:.2g}; {}\n",
        choice_.kept.size(), tolerance(), choice_.error_of_all, worst_text());
  }
  return lines;
}

std::string Narrowing::refusal(const ModelError& error) const {
  std::string text = fmt::format(
      "output '{}' is off by {:.2g} of its largest magnitude on {}; --tolerance allows {:.2g}, and "
      "no "
      "file was kept",
      error.output, error.worst, inputs_text(), tolerance());
  if (precision_.is_narrow()) text += fmt::format("; {}; {}", worst_text(), advice());
  return text;
}

std::string Narrowing::inputs_text() const {
  return arguments_.in.empty() ? "random inputs" : "the inputs of --in";
}

std::string Narrowing::worst_text() const {
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, choice_.errors.size()); ++i) {
    text += fmt::format("{}{} ({:.2g})", i == 0 ? "" : ", ", choice_.errors[i].label,
                        choice_.errors[i].error);
  }
  return "by themselves the nodes are off the most: " + text;
}

std::string Narrowing::advice() const {
  std::string more;
  if (precision_.weights && precision_.weights->group != 32) {
    more = fmt::format("--precision {}:32 has finer scales, ", to_string(precision_.weights->type));
  } else if (precision_.factors == ElemType::i8) {
    more = "--precision bf16 and i8:-1 are nearer, ";
  }
  return more + "--precision f32 is the nearest";
}

}  // namespace tilewright::cli
