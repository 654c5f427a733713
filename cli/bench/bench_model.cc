#include "cli/bench/bench_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "cli/line/duration.h"
#include "cli/models/onnx_file.h"
#include "cli/output/table.h"
#include "cli/run/model_file.h"
#include "runtime/compile/process.h"
#include "runtime/error.h"

// The scripts that take the turns, as they are; the build says where they lie.
asm(".pushsection .rodata\n"
    ".global tilewright_model_peers_begin, tilewright_model_peers_end\n"
    "tilewright_model_peers_begin:\n"
    ".incbin \"" TILEWRIGHT_SCRIPTS
    "/models/model_peers.py\"\n"
    "tilewright_model_peers_end:\n"
    ".global tilewright_bench_models_begin, tilewright_bench_models_end\n"
    "tilewright_bench_models_begin:\n"
    ".incbin \"" TILEWRIGHT_SCRIPTS
    "/bench_models.py\"\n"
    "tilewright_bench_models_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
extern const char tilewright_model_peers_begin[];
extern const char tilewright_model_peers_end[];
extern const char tilewright_bench_models_begin[];
extern const char tilewright_bench_models_end[];
}

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kNoPeers = 4;              // the script's exit code
constexpr double kLoadingSeconds = 600;  // of all sides

// The environment that scripts/peer_models makes.
std::string environment() {
  const char* own = std::getenv("TILEWRIGHT_PEERS_PREFIX");
  const bool named = own != nullptr && *own != '\0';
  return (named ? std::string(own) : user_cache().value_or("") + "/peers") + "/models";
}

std::string python() {
  const std::string own = environment() + "/bin/python";
  return access(own.c_str(), X_OK) == 0 ? own : "python3";
}

// The second script, with the first as the module that it imports: a JSON text is one of Python's.
std::string script() {
  const std::string peers(tilewright_model_peers_begin, tilewright_model_peers_end);
  return fmt::format(
             "import sys, types\n"
             "sys.modules['model_peers'] = types.ModuleType('model_peers')\n"
             "exec({}, sys.modules['model_peers'].__dict__)\n",
             Json(peers).dump(-1, ' ', true)) +
         std::string(tilewright_bench_models_begin, tilewright_bench_models_end);
}

// The library beside this program, in a build or in an installed tree; else the loader's.
std::string serving_library() {
  std::error_code none;
  const fs::path folder = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const fs::path& path : {folder / "libtilewright.so", folder / "../lib/libtilewright.so"}) {
    if (fs::exists(path, none)) return path.string();
  }
  return "libtilewright.so.0";
}

std::vector<std::string> command_of(const CommonOptions& options, const ModelBench& bench) {
  std::vector<std::string> command = {python(),
                                      "-",
                                      fmt::format("{}={}", bench.onnx, options.specs[0]),
                                      "--json",
                                      "--library",
                                      serving_library(),
                                      "--threads",
                                      std::to_string(thread_count(options)),
                                      "--seconds",
                                      fmt::format("{}", parse_time_limit(bench.time)),
                                      "--seed",
                                      std::to_string(bench.seed),
                                      "--peer-precision",
                                      bench.peer_precision,
                                      "--parent",
                                      std::to_string(getpid())};
  for (const std::string& constant : bench.constants) {
    command.insert(command.end(), {"--const", constant});
  }
  return command;
}

// The last line that the script said.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Json row_of(const ProcessResult& done) {
  if (done.started && done.exit_code == kNoPeers) {
    throw ToolchainError(fmt::format(
        "bench: {}; scripts/peer_models installs the peers; without it: python3 -m venv {} && "
        "{}/bin/pip install numpy onnxruntime openvino",
        last_line(done.err), environment(), environment()));
  }
  if (!done.ok()) {
    const std::string said = last_line(done.err);
    throw Error(fmt::format("bench: {}", said.empty() ? done.outcome() : said));
  }
  return Json::parse(done.out).at("results").at(0);
}

Json document_of(const CommonOptions& options, const ModelBench& bench, const Json& row) {
  Json peers = Json::object();
  for (const auto& [name, version] : row["versions"].items()) {
    peers[name] = {{"version", version},
                   {"seconds", row[name].get<double>() * 1e-3},
                   {"difference", row["errors"][name]}};
  }
  return {{"model", options.specs[0]},
          {"onnx", bench.onnx},
          {"threads", thread_count(options)},
          {"rounds", row["rounds"]},
          {"seconds", row["tilewright"].get<double>() * 1e-3},
          {"peers", peers},
          {"ratio", row["ratio"]},
          {"difference", peers.empty() ? Json() : peers.begin()->at("difference")},
          {"failed", row["failed"]},
          {"absent", row["absent"]}};
}

void print_row(const CommonOptions& options, const Json& row) {
  Table table({"side", "ms", "ratio", "difference"});
  const auto own = row["tilewright"].get<double>();
  table.row({"tilewright", fmt::format("{:.3f}", own), "", ""});
  for (const auto& [name, version] : row["versions"].items()) {
    const auto time = row[name].get<double>();
    table.row({fmt::format("{} {}", name, version.get<std::string>()), fmt::format("{:.3f}", time),
               fmt::format("{:.2f}", time / own),
               fmt::format("{:.1e}", row["errors"][name].get<double>())});
  }
  fmt::print("{}: {} rounds on {} thread{}\n{}", options.specs[0], row["rounds"].get<int>(),
             thread_count(options), thread_count(options) == 1 ? "" : "s",
             table.text(terminal_width(STDOUT_FILENO)));
  for (const auto& [name, why] : row["failed"].items()) {
    print_wrapped(fmt::format("{} cannot run the model: {}", name, why.get<std::string>()));
  }
  if (!row["absent"].empty()) {
    const auto names =
        fmt::format("{}", fmt::join(row["absent"].get<std::vector<std::string>>(), " "));
    print_wrapped(
        fmt::format("not installed: {0}; 'scripts/peer_models {0}' installs what PyPI has", names));
  }
  if (row["ratio"].is_null()) return;
  print_wrapped(
      fmt::format("ratio to the fastest peer: {:.2f}; the differences are those of the "
                  "outputs, as a share of their largest magnitude",
                  row["ratio"].get<double>()));
}

}  // namespace

void refuse_onnx(const CommonOptions& options) {
  if (options.specs.size() != 1 || !options.specs[0].ends_with(".onnx")) return;
  const std::string& onnx = options.specs[0];
  const std::string made = fs::path(onnx).stem().string() + ".tw";
  throw UsageError(
      fmt::format("'{0}' is a model that is compiled first: 'tune-cli compile {0} -o "
                  "{1}', then 'tune-cli bench {1} --onnx {0}'",
                  onnx, made));
}

int bench_model(const CommonOptions& options, const ModelBench& bench) {
  const std::string& path = options.specs[0];
  require_model_file(path);
  if (bench.onnx.empty()) {
    throw UsageError(
        fmt::format("--onnx: expected the ONNX file that '{0}' was made of, which the peers "
                    "run; 'tune-cli explain {0}' times the model file alone",
                    path));
  }
  if (!fs::exists(bench.onnx)) {
    throw UsageError(fmt::format("--onnx: there is no file '{}'", bench.onnx));
  }
  read_constants(bench.constants);
  const double limit = kLoadingSeconds + 2 * parse_time_limit(bench.time);
  const Json row = row_of(run_process(command_of(options, bench), script(), limit));
  if (options.json) {
    print_json(document_of(options, bench, row));
  } else {
    print_row(options, row);
  }
  return kDone;
}

}  // namespace tilewright::cli
