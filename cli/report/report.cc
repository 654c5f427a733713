// tune-cli report: one page about what tuning found out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/output/output_file.h"
#include "cli/report/report_data.h"
#include "cli/report/report_page.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ReportArguments {
  CommonOptions common;
  std::string out = "tilewright-report.html";
};

Json workload_json(const ReportWorkload& w) {
  Json invalid = Json::object();
  for (const ReportFailure& f : w.failures) invalid[f.cause] = f.count;
  Json best = nullptr;
  if (const ReportConfig* c = w.best()) {
    best = {{"seconds", c->seconds},
            {"gflops", w.flops / c->seconds * 1e-9},
            {"roofline_fraction", w.roof.seconds / c->seconds},
            {"sketch", c->sketch},
            {"config", Json::parse(c->config)}};
    if (!w.above_roof.empty()) best["roofline_cause"] = w.above_roof;
  }
  Json predicted = Json::array();
  for (const ReportConfig& c : w.predicted) {
    predicted.push_back({{"predicted_seconds", c.seconds},
                         {"sketch", c.sketch},
                         {"config", Json::parse(c.config)}});
  }
  return {{"spec", w.spec},
          {"predicted", predicted},
          {"name", w.label},
          {"workload", w.hash},
          {"threads", w.threads},
          {"trials", w.trials.size()},
          {"valid", w.valid()},
          {"invalid", invalid},
          {"best", best},
          {"default_seconds", w.default_seconds > 0 ? Json(w.default_seconds) : Json(nullptr)}};
}

int run_report(const ReportArguments& a) {
  database::Store store = open_store(a.common);
  Report report = gather_report(a.common, store);
  std::string page = report_page(report);
  if (a.out == "-") {
    std::cout << page << std::flush;
    return kDone;
  }
  write_text_file(a.out, page);
  if (a.common.json) {
    Json list = Json::array();
    for (const ReportWorkload& w : report.workloads) list.push_back(workload_json(w));
    print_json({{"out", a.out},
                {"bytes", page.size()},
                {"target", report.target},
                {"identity", report.identity.hash},
                {"runs", report.runs.size()},
                {"results", list}});
  } else {
    note(a.common, fmt::format("wrote {}: {} workloads", a.out, report.workloads.size()));
  }
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<ReportArguments>();
  CLI::App* sub = app.add_subcommand(
      "report", "Writes an HTML page: convergence, roofline, fastest configs, failures");
  Wants wants;
  wants.specs_required = false;
  wants.runs_kernels = false;
  wants.threads = false;
  wants.cuda = true;
  wants.trust = true;
  add_common(*sub, a->common, wants);
  sub->add_option("--threads", a->common.threads,
                  "Only kernels tuned for so many threads; 0: any number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_option("-o,--out", a->out, "HTML file, or '-' for standard output")
      ->capture_default_str();
  sub->footer(
      "Examples:\n  tune-cli report\n  tune-cli report -o report.html --db kernels.db\n"
      "  tune-cli report -o matmul.html matmul:m=512,n=768,k=768 --threads 1");
  runners["report"] = [a] {
    if (a->out == "-" && a->common.json) {
      throw UsageError("--json and '-o -' both need standard output; name a file");
    }
    return run_report(*a);
  };
}

}  // namespace tilewright::cli
