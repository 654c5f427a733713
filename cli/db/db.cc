// tune-cli db: care of the database.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/db/rebuild.h"
#include "cli/lookup.h"
#include "kernel/target.h"
#include "runtime/machine/identity.h"
#include "tuner/backend.h"
#include "tuner/search/pretrained.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;
using database::Mode;
using database::Store;

struct DbArguments {
  CommonOptions common;
  std::string file;   // of merge, export, import and the trained model
  std::string serve;  // the file to serve from
  std::string key;    // the file of a secret one
  bool from_nothing = false, all_machines = false;
  bool rebuild = false;
  std::set<std::string> without;  // hashes of workloads
  database::PrunePolicy policy;
};

Json merge_json(const database::MergeReport& r) {
  Json tables = Json::object();
  for (const auto& [name, c] : r.tables) {
    tables[name] = {
        {"added", c.added}, {"healed", c.healed}, {"updated", c.updated}, {"same", c.same}};
  }
  return {{"tables", tables},
          {"bad", r.bad.size()},
          {"unreadable", r.unreadable},
          {"foreign", r.foreign},
          {"adopted", r.adopted}};
}

// Kernels are machine code of whoever wrote the other database.
void say_foreign(const CommonOptions& options, const database::MergeReport& r) {
  if (r.foreign == 0) return;
  note(options,
       fmt::format("{} that came along {} machine code made elsewhere and will not be run: "
                   "'tune-cli db merge --rebuild --db {}' rebuilds {} here, --trust KEY accepts "
                   "kernels that the key signed (docs/security.md)",
                   r.foreign == 1 ? "1 kernel" : fmt::format("{} kernels", r.foreign),
                   r.foreign == 1 ? "is" : "are", options.db, r.foreign == 1 ? "it" : "them"));
}

void print(const CommonOptions& options, const Json& json) {
  if (options.json) return print_json(json);
  for (const auto& [key, value] : json.items()) {
    fmt::print("{:<12} {}\n", key,
               value.is_string() ? value.get<std::string>()
                                 : value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

int run_info(const DbArguments& a) {
  database::Info info = Store::open(a.common.db, Mode::ReadOnly).info();
  Json j = {
      {"path", info.path},          {"schema", info.schema_version},    {"serving", info.serving},
      {"bytes", info.bytes},        {"trusted", info.distrust.empty()}, {"distrust", info.distrust},
      {"kernels", info.kernels},    {"runnable", info.runnable},        {"rows", info.rows},
      {"tools", info.tool_versions}};
  Json workloads = Json::array();
  for (const auto& w : info.workloads) {
    workloads.push_back({{"workload", w.hash},
                         {"op", w.op},
                         {"label", w.label},
                         {"records", w.records},
                         {"valid", w.valid},
                         {"best_seconds", w.best_seconds}});
  }
  Json targets = Json::array();
  for (const auto& t : info.targets) {
    targets.push_back({{"chip", t.chip}, {"features", t.features}});
    if (t.cores > 0) targets.back()["multiprocessors"] = t.cores;
  }
  j["targets"] = targets;
  j["workloads"] = workloads;
  print(a.common, j);
  return kDone;
}

int run_check(const DbArguments& a) {
  database::CheckReport r = Store::open(a.common.db, Mode::ReadOnly).check();
  Json problems = Json::array();
  for (const std::string& s : r.structure) problems.push_back(s);
  for (const auto& b : r.rows) problems.push_back(to_string(b));
  for (const auto& b : r.dangling) problems.push_back(to_string(b));
  print(a.common, {{"ok", r.ok()}, {"checked", r.checked}, {"problems", problems}});
  return r.ok() ? kDone : kDatabaseTrouble;
}

int run_merge(const DbArguments& a) {
  if (a.file.empty() && !a.rebuild) {
    throw UsageError("db merge: expected the file of another database, or --rebuild");
  }
  Store store = open_store(a.common, Mode::Create);
  database::MergeReport r;
  if (!a.file.empty()) r = store.merge(a.file);
  Json j = merge_json(r);
  if (a.rebuild) {
    j["rebuilt"] = rebuild_kernels(a.common, store);
  } else {
    say_foreign(a.common, r);
  }
  print(a.common, j);
  return kDone;
}

int run_keygen(const DbArguments& a) {
  const auto key = database::SigningKey::generate(a.file);
  print(a.common, {{"secret", a.file}, {"public", a.file + ".pub"}, {"key", key.public_key}});
  return kDone;
}

int run_sign(const DbArguments& a) {
  const auto key = database::SigningKey::read(a.key);
  const int64_t count = Store::open(a.common.db, Mode::ReadWrite).sign(key);
  print(a.common, {{"signed", count}, {"key", key.public_key}});
  return kDone;
}

int run_prune(const DbArguments& a) {
  database::PruneReport r = Store::open(a.common.db, Mode::ReadWrite).prune(a.policy);
  print(a.common, {{"records", r.records},
                   {"artifacts", r.artifacts},
                   {"workloads", r.workloads},
                   {"targets", r.targets},
                   {"damaged", r.damaged},
                   {"bytes_before", r.bytes_before},
                   {"bytes_after", r.bytes_after}});
  return kDone;
}

int run_export_serving(const DbArguments& a) {
  Store store = open_store(a.common);
  if (!store.distrust().empty()) {
    note(a.common,
         fmt::format("only kernels that a trusted key signed are written: {}", store.distrust()));
  }
  database::ServingReport r = store.export_serving(a.serve);
  print(a.common, {{"workloads", r.workloads},
                   {"records", r.records},
                   {"artifacts", r.artifacts},
                   {"dispatch", r.tables},
                   {"bytes", r.bytes},
                   {"sha256", r.sha256}});
  return kDone;
}

int run_export(const DbArguments& a) {
  if (a.file.empty() == a.serve.empty()) {
    throw UsageError("db export: expected either a file for JSON lines or --serve FILE");
  }
  if (!a.serve.empty()) return run_export_serving(a);
  if (a.file == "-" && a.common.json) {
    throw UsageError("--json and the file '-' both need standard output; name a file");
  }
  Store store = Store::open(a.common.db, Mode::ReadOnly);
  if (a.file == "-") {
    store.export_jsonl(std::cout);
    return kDone;
  }
  std::ofstream out(a.file);
  database::ExportReport r = store.export_jsonl(out);
  out.close();
  if (!out) throw UsageError(fmt::format("cannot write '{}'", a.file));
  print(a.common, {{"rows", r.rows}, {"left_out", r.bad.size()}});
  return kDone;
}

int run_import(const DbArguments& a) {
  Store store = Store::open(a.common.db, Mode::Create);
  if (a.file == "-") {
    database::MergeReport r = store.import_jsonl(std::cin, "standard input");
    say_foreign(a.common, r);
    print(a.common, merge_json(r));
    return kDone;
  }
  std::ifstream in(a.file);
  if (!in) throw UsageError(fmt::format("cannot read '{}'", a.file));
  database::MergeReport r = store.import_jsonl(in, a.file);
  say_foreign(a.common, r);
  print(a.common, merge_json(r));
  return kDone;
}

// The model of the machine's own target; with --all-machines one that is to be shipped, which is not stored.
int run_train(const DbArguments& a) {
  Store store = Store::open(a.common.db, Mode::ReadWrite);
  Target target = Target::parse("native");
  std::string hash = target_identity(target).hash;
  int64_t samples = 0;
  TrainingOptions options{
      .base = {}, .without = a.without, .feature_version = Backend::of(target).feature_version()};
  if (!a.from_nothing) options.base = Backend::of(target).pretrained(target);
  CostModel model = train_on(store, a.all_machines ? "" : hash, options, &samples);
  if (!model.trained()) {
    throw UsageError(fmt::format("'{}' holds no measured trial of this machine ({}) to learn from",
                                 a.common.db, target.name));
  }
  if (!a.all_machines) store_model(store, hash, model, samples, options.feature_version);
  std::vector<std::byte> bytes = model.save();
  if (!a.file.empty()) {
    std::ofstream out(a.file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    out.close();
    if (!out) throw UsageError(fmt::format("cannot write '{}'", a.file));
  }
  print(a.common, {{"samples", samples}, {"bytes", bytes.size()}});
  return kDone;
}

}  // namespace

void add_db(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<DbArguments>();
  CLI::App* db = app.add_subcommand("db", "Maintains the database");
  db->require_subcommand(1);
  auto run = std::make_shared<std::function<int()>>();
  auto add = [&](const char* name, const char* doc, const char* example,
                 int (*fn)(const DbArguments&), bool trust = false) {
    CLI::App* sub = db->add_subcommand(name, doc);
    add_common(*sub, a->common,
               {.specs = false, .target = false, .threads = false, .trust = trust});
    sub->footer(std::string("Example:\n  tune-cli db ") + example);
    sub->callback([a, run, fn] { *run = [a, fn] { return fn(*a); }; });
    return sub;
  };
  add("info", "Counts the database's rows per table and machine", "info --db kernels.db", run_info);
  add("check", "Checks every page and row", "check --db kernels.db", run_check);
  CLI::App* merge =
      add("merge",
          "Merges another database into this one. Its kernels are foreign machine code: they run "
          "only once they are rebuilt here, or if a trusted key signed them",
          "merge other.db --db kernels.db\n"
          "  tune-cli db merge --rebuild other.db --db kernels.db\n"
          "  tune-cli db merge other.db --trust builder.pub --db kernels.db",
          run_merge, true);
  merge->add_option("file", a->file, "Database to merge");
  merge->add_flag("--rebuild", a->rebuild,
                  "Compile, check and time the merged kernels for this machine from their configs");
  add("keygen", "Makes a key pair for signing kernels", "keygen builder.key", run_keygen)
      ->add_option("file", a->file, "File for the secret key; the public key goes to FILE.pub")
      ->required();
  add("sign", "Signs the kernels that were made here", "sign --key builder.key --db kernels.db",
      run_sign)
      ->add_option("--key", a->key, "The secret key")
      ->type_name("FILE")
      ->required();
  CLI::App* prune = add("prune", "Deletes records and artifacts beyond the best kernels",
                        "prune --keep 2 --db kernels.db", run_prune);
  prune->add_option("--keep", a->policy.keep_best, "Kernels to keep per workload and target")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  prune->add_flag("--keep-failures", a->policy.keep_failures, "Keep records of failed candidates");
  prune->add_flag("--drop-damaged", a->policy.drop_damaged, "Delete rows that cannot be read");
  prune->add_flag("--dry-run", a->policy.dry_run, "Print the counts, change nothing");
  CLI::App* save = add("export", "Writes JSON lines, or a read-only file for serving",
                       "export kernels.jsonl --db kernels.db\n"
                       "  tune-cli db export --serve serve.db --db kernels.db",
                       run_export, true);
  save->add_option("file", a->file, "File for JSON lines, or '-' for standard output");
  save->add_option("--serve", a->serve,
                   "Write a read-only database with the best kernels, the untuned defaults and the "
                   "dispatch tables alone")
      ->type_name("FILE");
  add("import",
      "Reads JSON lines. Kernels among them are foreign machine code: they run only once they are "
      "rebuilt here, or if a trusted key signed them",
      "import kernels.jsonl --db kernels.db", run_import)
      ->add_option("file", a->file, "File of JSON lines, or '-' for standard input")
      ->required();
  CLI::App* train = add("train", "Trains the cost model on all measured trials",
                        "train --db kernels.db", run_train);
  train->add_flag("--from-nothing", a->from_nothing, "Do not start from the shipped model");
  train->add_flag("--all-machines", a->all_machines,
                  "Learn from trials of all CPUs, and store no model: for -o");
  train->add_option("--without", a->without, "Hash of a workload to hold out");
  train->add_option("-o,--output", a->file, "Also write the model to this file");
  db->footer("Example:\n  tune-cli db info --db kernels.db");
  runners["db"] = [run] { return (*run)(); };
}

}  // namespace tilewright::cli
