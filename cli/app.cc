// The program: parsing, running, and exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "database/error.h"
#include "ir/knobs.h"
#include "runtime/error.h"
#include "tilewright/version.h"

namespace tilewright::cli {
namespace {

int report(const std::string& what, int code) {
  std::cerr << "tune-cli: " << what << "\n";
  return code;
}

int run_guarded(const Runner& runner) {
  try {
    return runner();
  } catch (const UsageError& e) {
    return report(e.what(), kBadUsage);
  } catch (const MissError& e) {
    return report(e.what(), kRequiredMissed);
  } catch (const SpecError& e) {
    return report(e.what(), kBadUsage);
  } catch (const FileError& e) {
    return report(e.what(), kBadUsage);
  } catch (const ToolchainError& e) {
    return report(e.what(), kNoDeviceOrToolchain);
  } catch (const database::DatabaseError& e) {
    return report(e.what(), kDatabaseTrouble);
  } catch (const Error& e) {
    return report(e.what(), kBadUsage);
  } catch (const std::exception& e) {
    return report(std::string("internal fault: ") + e.what(), kInternalFault);
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  // Data goes to standard output, logs to standard error.
  spdlog::set_default_logger(spdlog::stderr_color_mt("tune-cli"));
  spdlog::set_level(spdlog::level::from_str(knob_text(Knob::Log)));
  CLI::App app(
      "Tunes operators for this machine, proves the kernels right, keeps and replays them.",
      "tune-cli");
  app.set_version_flag("--version", TILEWRIGHT_VERSION);
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
  add_documents(app, runners);
  add_worker(app, runners);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? kDone : kBadUsage;
  }
  return run_guarded(runners.at(app.get_subcommands()[0]->get_name()));
}

}  // namespace tilewright::cli
