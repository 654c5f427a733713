// The program: parsing, running, and exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/knobs.h"
#include "cli/command.h"
#include "cli/line/command_line.h"
#include "cli/line/interrupt.h"
#include "cli/line/mistakes.h"
#include "cli/line/settings.h"
#include "cli/models/extract.h"
#include "cli/models/narrowing.h"
#include "database/error.h"
#include "graph/graph.h"
#include "runtime/error.h"
#include "serving/status.h"
#include "tuner/fleet/place.h"

namespace tilewright::cli {
namespace {

// The name of an exit code in a document.
const char* kind_of(int code) {
  switch (code) {
    case kBadUsage: return "bad_usage";
    case kNoValidCandidate: return "no_valid_candidate";
    case kNoDeviceOrToolchain: return "no_device_or_toolchain";
    case kDatabaseTrouble: return "database_trouble";
    case kRequiredMissed: return "required_missed";
    default: return "internal_fault";
  }
}

// Set from the arguments alone: what does not parse is answered as it was asked for, too.
bool wants_document = false;

// A message on standard error and, where a document was asked for and none was printed, that too.
int report(const std::string& what, int code) {
  std::cerr << "tune-cli: " << what << "\n";
  if (wants_document && !printed_document()) {
    try {
      print_json({{"error", {{"code", code}, {"kind", kind_of(code)}, {"message", what}}}});
    } catch (const Error&) {  // standard output takes no more
    }
  }
  return code;
}

// The caller's input: an option, a spec, a file.
int of_usage(const Error& e) { return report(e.what(), kBadUsage); }

int run_guarded(const Runner& runner) {
  try {
    return runner();
  } catch (const UsageError& e) {
    return of_usage(e);
  } catch (const SpecError& e) {
    return of_usage(e);
  } catch (const FileError& e) {
    return of_usage(e);
  } catch (const graph::GraphError& e) {  // a model of which a node has no kernel
    return of_usage(e);
  } catch (const database::RecordError& e) {  // a line of an import
    return of_usage(e);
  } catch (const database::TrustError& e) {
    return of_usage(e);
  } catch (const ToleranceError& e) {
    return report(e.what(), kNoValidCandidate);
  } catch (const MissError& e) {
    return report(e.what(), kRequiredMissed);
  } catch (const serving::ServingError& e) {
    return report(e.what(), e.status() == TW_ERROR_MISS ? kRequiredMissed : kBadUsage);
  } catch (const TargetError& e) {
    return report(e.what(), e.is_known() ? kNoDeviceOrToolchain : kBadUsage);
  } catch (const FleetError& e) {  // no worker: another machine is not there
    return report(e.what(), kNoDeviceOrToolchain);
  } catch (const ToolchainError& e) {
    return report(e.what(), kNoDeviceOrToolchain);
  } catch (const DeviceError& e) {
    return report(e.what(), kNoDeviceOrToolchain);
  } catch (const database::DatabaseError& e) {
    const bool none = e.kind() == database::DatabaseError::Kind::NotFound;
    const std::string next = none ? "; 'tune-cli tune SPEC --db FILE' makes one" : "";
    return report(e.what() + next, kDatabaseTrouble);
  } catch (const KernelError& e) {  // outside of workers only stored kernels are loaded
    return report(e.what(), kDatabaseTrouble);
  } catch (const Error& e) {  // this program's: a worker that does not start, memory, the model
    return report(e.what(), kInternalFault);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kInternalFault);
  } catch (const std::exception& e) {
    // fmt has no error of its own for an output that takes no more.
    if (std::ferror(stdout)) return report(output_problem(errno), kInternalFault);
    return report(std::string("internal fault: ") + e.what(), kInternalFault);
  }
}

// Parses the command line and runs the command that it names.
int parse_and_run(CLI::App& app, const Runners& runners, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    throw UsageError(explain(app, e));
  }
  return runners.at(app.get_subcommands()[0]->get_name())();
}

bool has_argument(int argc, const char* const* argv, std::string_view wanted) {
  return std::any_of(argv + 1, argv + argc, [&](const char* word) { return word == wanted; });
}

}  // namespace

int run(int argc, const char* const* argv) {
  wants_document = has_argument(argc, argv, "--json");
  remember_command_line(argc, argv);
  // Data goes to standard output, logs to standard error.
  const auto colors =
      knob_text(Knob::NoColor).empty() ? spdlog::color_mode::automatic : spdlog::color_mode::never;
  spdlog::set_default_logger(spdlog::stderr_color_mt("tune-cli", colors));
  spdlog::set_level(spdlog::level::from_str(knob_text(Knob::Log)));
  CLI::App app(
      "Tunes tensor operators for this machine: searches kernels, checks, stores and replays them.",
      "tune-cli");
  app.require_subcommand(1);
  const bool is_worker = argc > 1 && std::string_view(argv[1]) == "job-worker";
  if (!is_worker) add_settings(app);
  Runners runners;
  add_tune(app, runners);
  add_best(app, runners);
  add_replay(app, runners);
  add_show(app, runners);
  add_run(app, runners);
  add_explain(app, runners);
  add_bench(app, runners);
  add_export(app, runners);
  add_report(app, runners);
  add_db(app, runners);
  add_ops(app, runners);
  add_targets(app, runners);
  add_weights(app, runners);
  add_extract(app, runners);
  add_compile(app, runners);
  add_help(app, runners);
  add_documents(app, runners);
  add_worker(app, runners);
  add_job_worker(app, runners);
  int code = run_guarded([&] { return parse_and_run(app, runners, argc, argv); });
  if (code != kDone) return code;
  // What was printed may not have reached its file yet, and what does not is lost in silence.
  return run_guarded([] {
    flush_output();
    return kDone;
  });
}

}  // namespace tilewright::cli
