// The program: parsing, running, and exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <new>

#include "cli/command.h"
#include "cli/extract.h"
#include "cli/interrupt.h"
#include "database/error.h"
#include "ir/knobs.h"
#include "runtime/error.h"
#include "tilewright/version.h"
#include "tuner/offline.h"

namespace tilewright::cli {
namespace {

int report(const std::string& what, int code) {
  std::cerr << "tune-cli: " << what << "\n";
  return code;
}

// What the caller gave: an option, a spec, a file.
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
  } catch (const database::RecordError& e) {  // a line of an import
    return of_usage(e);
  } catch (const database::TrustError& e) {
    return of_usage(e);
  } catch (const NoModelError& e) {
    return of_usage(e);
  } catch (const MissError& e) {
    return report(e.what(), kRequiredMissed);
  } catch (const TargetError& e) {
    return report(e.what(), e.is_known() ? kNoDeviceOrToolchain : kBadUsage);
  } catch (const ToolchainError& e) {
    return report(e.what(), kNoDeviceOrToolchain);
  } catch (const DeviceError& e) {
    return report(e.what(), kNoDeviceOrToolchain);
  } catch (const database::DatabaseError& e) {
    return report(e.what(), kDatabaseTrouble);
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
    int code = app.exit(e);
    return code == 0 ? kDone : kBadUsage;
  }
  return runners.at(app.get_subcommands()[0]->get_name())();
}

// The version, and the revision behind it where the sources came with their history.
std::string version_text() {
  std::string version = TILEWRIGHT_VERSION, revision = build_revision();
  return revision == version ? version : version + " (" + revision + ")";
}

}  // namespace

int run(int argc, const char* const* argv) {
  // Data goes to standard output, logs to standard error.
  spdlog::set_default_logger(spdlog::stderr_color_mt("tune-cli"));
  spdlog::set_level(spdlog::level::from_str(knob_text(Knob::Log)));
  CLI::App app(
      "Tunes operators for this machine, proves the kernels right, keeps and replays them.",
      "tune-cli");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
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
  add_documents(app, runners);
  add_worker(app, runners);
  int code = run_guarded([&] { return parse_and_run(app, runners, argc, argv); });
  if (code != kDone) return code;
  // What was printed may not have reached its file yet, and what does not is lost in silence.
  return run_guarded([] {
    flush_output();
    return kDone;
  });
}

}  // namespace tilewright::cli
