// Parts of a graph that a model file can stand for.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "provider/graph_view.h"

namespace tilewright::provider {

// Nodes that together make one: no path between two of them leads through another node.
struct Region {
  std::vector<const NodeView*> nodes;
  std::vector<std::string>
      inputs;  // values that come from elsewhere, in the order of their first use
  std::vector<std::string> constants;  // likewise, that no run changes
  std::vector<std::string> outputs;    // values that the graph gives or other nodes read
};

// The largest regions without nodes of `excluded`, which names operators, nodes and what they give, without
// nodes that run graphs of their own or give no tensors of numbers, and without those whose shapes depend on
// values. `missing` names nodes alone: those without a name by the first value that they give.
std::vector<Region> regions_of(const GraphView& graph, const std::set<std::string>& excluded,
                               const std::set<std::string>& missing = {});

// Each node of a region by itself.
std::vector<Region> nodes_of(const GraphView& graph, const Region& region);

// All nodes. Nothing where some of them run graphs, which are not written.
std::optional<Region> whole_of(const GraphView& graph);

// Bytes, some of which belong to somebody else.
class Rope {
 public:
  struct Piece {
    std::string own;
    const void* data = nullptr;  // null: `own` counts
    size_t bytes = 0;
  };
  void add(std::string text);
  void add(const void* data, size_t bytes);
  void add(Rope other);
  size_t bytes() const { return bytes_; }
  template <class Take>
  void each(Take&& take) const {
    for (const Piece& piece : pieces_) {
      if (piece.data == nullptr)
        take(piece.own.data(), piece.own.size());
      else
        take(piece.data, piece.bytes);
    }
  }
  std::string text() const;

 private:
  std::vector<Piece> pieces_;
  size_t bytes_ = 0;
};

// A part of a region in whose place a node EPContext of this path stands.
struct Context {
  const Region* region;
  std::string path;
};
// The region as an ONNX model: the same bytes for the same nodes, types and constants. Holds views of the
// graph's constants.
Rope onnx_of(const GraphView& graph, const Region& region,
             const std::vector<Context>& contexts = {});
// 32 hexadecimal digits.
std::string digest_of(const Rope& onnx);

inline constexpr const char* kContextOp = "EPContext";
inline constexpr const char* kContextDomain = "com.microsoft";

}  // namespace tilewright::provider
