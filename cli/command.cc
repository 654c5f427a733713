#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/knobs.h"
#include "cli/gpu.h"
#include "runtime/machine/cpus.h"

namespace tilewright::cli {

namespace {

// Whether no kernel is to run on this machine's processor or GPU after all: these modes may serve
// another machine.
bool only_plans(const CLI::App& app) {
  for (const char* mode : {"--dry-run", "--offline", "--emulate", "--text"}) {
    const CLI::Option* option = app.get_option_no_throw(mode);
    if (option != nullptr && option->count() > 0) return true;
  }
  return false;
}

}  // namespace

std::string default_database() { return knob_text(Knob::Db); }

void add_common(CLI::App& app, CommonOptions& o, const Wants& wants) {
  if (wants.specs) {
    auto* specs = app.add_option(
        "spec", o.specs,
        "Operator specs: inline text, JSON, a file of them, or '-' for standard input");
    if (wants.specs_required) specs->required();
  }
  if (wants.db) app.add_option("--db", o.db, "Database file")->capture_default_str();
  if (wants.trust) {
    app.add_option("--trust", o.trust,
                   "Public key (64 hexadecimal digits, or a file with them): run kernels that it "
                   "signed, even if others may write the database")
        ->allow_extra_args(false)  // what follows may be the spec
        ->type_name("KEY");
    app.add_option("--pin", o.pin,
                   "SHA-256 of a serving file: run its kernels, even if others may write the file")
        ->type_name("HASH");
  }
  if (wants.target) {
    app.add_option("--target", o.target,
                   "Target: native, avx512, avx2, generic, cuda:sm_XX or cuda:h100; 'tune-cli "
                   "targets' lists them")
        ->capture_default_str();
  }
  if (wants.threads) {
    app.add_option("--threads", o.threads, "Threads per kernel; 0: one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
  }
  if (wants.target) {
    app.final_callback([&app, &o, runs = wants.runs_kernels, cuda = wants.cuda] {
      Target target = Target::parse(o.target);
      bool runs_now = runs && !only_plans(app);
      const bool is_gpu = target.is_cuda();
      if (is_gpu && !cuda) target.require_here();  // throws: no such command for GPUs
      if (runs_now) is_gpu ? require_gpu(target) : target.require_here();
    });
  }
  app.add_flag("--json", o.json, "Print one JSON document on standard output, nothing else");
  app.add_flag("--quiet", o.quiet, "Print no progress and no notes on standard error");
}

std::vector<Workload> read_workloads(const CommonOptions& options) {
  std::vector<Workload> workloads;
  for (const std::string& argument : options.specs) {
    for (const Spec& spec : parse_specs(argument)) workloads.push_back(make_workload(spec));
  }
  return workloads;
}

namespace {

// A public key as it was given, or out of the file of that name.
std::string key_of(const std::string& given) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(given, error)) return given;
  std::ifstream in(given);
  std::string key;
  in >> key;
  return key;
}

}  // namespace

database::Trust trust_of(const CommonOptions& options) {
  database::Trust trust{{}, options.pin};
  for (const std::string& key : options.trust) trust.keys.push_back(key_of(key));
  return trust;
}

database::Store open_store(const CommonOptions& options, database::Mode mode) {
  return database::Store::open(options.db, mode, std::chrono::seconds(5), trust_of(options));
}

std::string tune_command(const Workload& workload, const CommonOptions& options) {
  std::string command = fmt::format("tune-cli tune '{}' --db {}",
                                    spec_to_inline(parse_spec(workload.canonical)), options.db);
  if (options.target != CommonOptions().target) command += " --target " + options.target;
  if (options.threads > 0) command += fmt::format(" --threads {}", options.threads);
  return command;
}

MissError::MissError(const Workload& workload, const CommonOptions& options,
                     const std::string& reason, const std::string& otherwise)
    : Error(fmt::format(
          "{}: {}; this would tune it: {}{}", spec_to_inline(parse_spec(workload.canonical)),
          reason, tune_command(workload, options), otherwise.empty() ? "" : "; " + otherwise)) {}

void note_tuning(const CommonOptions& options, const Workload& workload) {
  note(options, "  this would tune it: " + tune_command(workload, options));
}

int thread_count(const CommonOptions& options) {
  const int cores = available_cores();
  if (options.threads <= 0) return cores;
  static const bool told = [&] {
    if (options.threads > cores) {
      note(options,
           fmt::format("{} threads share {} here: times say little of a machine with as "
                       "many; leave --threads out for one per core",
                       options.threads, cores == 1 ? "one core" : fmt::format("{} cores", cores)));
    }
    return true;
  }();
  static_cast<void>(told);
  return options.threads;
}

std::vector<std::string> worker_command() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) throw Error("cannot find this program's own path in /proc/self/exe");
  return {std::string(path, static_cast<size_t>(length)), "job-worker"};
}

namespace {

bool document_printed = false;

}  // namespace

bool printed_document() { return document_printed; }

void print_json(const nlohmann::ordered_json& document) {
  document_printed = true;
  // A damaged or foreign database need not hold text.
  std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
            << "\n";
  flush_output();
}

std::string output_problem(int error) {
  std::string problem = "cannot write standard output";
  return error == 0 ? problem : problem + ": " + std::strerror(error);
}

void flush_output() {
  errno = 0;
  std::cout.flush();
  bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!flushed || !std::cout) throw Error(output_problem(errno));
}

void note(const CommonOptions& options, const std::string& line) {
  if (!options.quiet) std::cerr << line << "\n";
}

}  // namespace tilewright::cli
