// The execution provider of one session, and the factory that makes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provider/options.h"
#include "provider/region.h"
#include "provider/runner.h"
#include "provider/trial.h"

namespace tilewright::provider {

class Provider : public ort::Ep {
 public:
  Provider(const Runtime& runtime, const ort::Logger* logger, Options options);

  // Which nodes a model file stands for. Says in the log why others stay where they are.
  void find_capability(const ort::Graph* graph, ort::Support* support);
  // One of the nodes that it claimed.
  ort::ComputeInfo* compile(const ort::Graph* graph, const ort::Node* fused,
                            ort::Node** context_node);

 private:
  // Nodes that a runner stands for, known by what they give.
  struct Claim {
    std::vector<std::string> outputs;
    std::shared_ptr<Runner> runner;
  };
  void log(ort::Severity severity, const std::string& line) const {
    runtime_.log(logger_, severity, line);
  }
  Runner::Log log_lines() const;
  std::string model_file(const std::string& digest) const;

  void claim_context(const GraphView& graph, const ort::Graph* owner, const NodeView& node,
                     ort::Support* support);
  // Why a file does not stand for a region.
  struct Refusal {
    std::string why = {};
    bool missing = false;  // there is no file
    bool empty() const { return why.empty(); }
  };
  struct Left {
    size_t nodes;
    Refusal refused;
  };
  // Claims the region where its file is right and fast enough, else says why not. A trial times for so many
  // seconds at least.
  Refusal refusal(const GraphView& graph, const Region& region, double seconds,
                  ort::Support* support);
  // `part`: of a graph that has other nodes, too.
  Refusal judge(const std::string& path, const Verdict& verdict, bool part) const;
  // Claims nodes of a region that was not claimed, which have files of their own. Returns how many.
  size_t claim_nodes(const GraphView& graph, const Region& region, ort::Support* support);
  // The lines of regions that are left to other providers.
  void explain(const std::vector<Left>& left, size_t alone) const;
  void claim(const Region& region, std::shared_ptr<Runner> runner, ort::Support* support);
  // Claims regions, or nodes of them, that have model files.
  void claim_files(const GraphView& graph, const std::vector<Region>& regions,
                   ort::Support* support);
  // Claims the parts of the graph that run faster on kernels of the database, and says why other nodes stay.
  void claim_hits(const GraphView& graph, ort::Support* support);
  // Writes the region for tune-cli, or its nodes, and says how to compile them, where the option asks for that and
  // there are no files. Tells whether it wrote any.
  bool dump(const GraphView& graph, const Region& region) const;
  bool write_region(const GraphView& graph, const Region& region) const;
  ort::Node* context_node(const ort::Graph* graph, const ort::Node* fused,
                          const Runner& runner) const;

  const Runtime& runtime_;
  const ort::Logger* logger_;
  Options options_;
  std::vector<Claim> claims_;
};

class ProviderFactory : public ort::Factory {
 public:
  explicit ProviderFactory(Runtime runtime);
  const Runtime& runtime() const { return runtime_; }

 private:
  Runtime runtime_;
};

}  // namespace tilewright::provider
