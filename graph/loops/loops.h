// Loops: nodes that run a body, which is a program with values of its own, round after round.
//
//   loop 200 at most "n" while "go" for "LSTM_0"
//   input "x": f32[1, 64] = rows "xs"
//   input "h": f32[1, 16] = "h0" then "h'"
//   input "m": f32[16, 16] = whole "mixed"
//   input "t": i64[1] = number
//   "h'": f32[1, 16] = "expr:…" (…)
//   "go": u8[1] = "expr:…" (…)
//   output "h'"
//   output "go"
//   rows "y": f32[200, 1, 16] = "h'"
//   last "h_n": f32[1, 16] = "h'"
//   end
//
// An input of the body is a row of a value, the next one in each round; or it is carried: in the first round another
// value, then what a round before made; or a whole value, or the number of the round. An output of the node has a row
// of each round, or is what was carried in the end. The number of rounds is a size. A value of a run may say fewer, and
// an output of the body that no more follow. Rows of rounds that do not come are zeros.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tilewright::graph {

struct Loop {
  enum class In : uint8_t { Whole, Rows, RowsBack, Carried, Number };
  struct Input {
    In kind = In::Whole;
    size_t next = 0;  // of a carried one: the output of the body that it is in the next round
  };
  struct Output {
    size_t from = 0;  // an output of the body
    bool rows = false, back = false;
  };

  Graph body;
  int64_t rounds = 1;
  std::vector<Input> inputs;    // as the body's inputs
  std::vector<Output> outputs;  // as those of the node
  std::optional<size_t> go_on;  // an output of the body: no round follows where it is 0
};

// The operand that says how many rounds there are at most.
inline constexpr const char* kRounds = "rounds";

// The input of the body that carries what the output has in the end.
size_t carried_input(const Loop& loop, size_t output);

// Throws GraphError that names the node.
void verify_loop(const Graph& graph, const Node& node, bool specs_are_known);

// Calls `fn` with each node of the graph and of all bodies, in the order in which they run, and with how often it
// runs at most.
void for_each_node(const Graph& graph,
                   const std::function<void(const Graph&, const Node&, double)>& fn,
                   double times = 1);
// Calls `fn` with the graph and all bodies, the outer ones first.
void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& fn);
// Calls `fn` with each body of the graph's own nodes, to change it.
void change_bodies(Graph* graph, const std::function<void(Loop*)>& fn);
bool has_loops(const Graph& graph);

// The lines of a loop, and those of a graph behind its inputs.
std::string loop_text(const Graph& graph, const Node& node);
std::string constants_and_nodes(const Graph& graph);

// The outputs of a loop by the oracle, given the elements of its operands by their names.
std::vector<Bytes> interpret_loop(
    const Node& node, const std::map<std::string, Bytes>& operands,
    const std::vector<int64_t>& output_bytes,
    const std::function<std::vector<Bytes>(const Graph&, const std::map<std::string, Bytes>&)>&
        run);
// Whole values that are constants become constants of the bodies. `data` are those of the graph's values.
void move_constants_in(const Graph& graph, Node* node, const std::vector<Bytes>& data);

}  // namespace tilewright::graph
