// Loops of a model: what stands ready of their bodies, and their rounds.
#include <algorithm>
#include <cstring>

#include "graph/loops/loops.h"
#include "serving/models/model_step.h"
#include "serving/status.h"

namespace tilewright::serving {
namespace {

int64_t integer_at(const char* place, int bytes) {
  int64_t value = 0;
  if (bytes == 1) return *reinterpret_cast<const uint8_t*>(place);
  if (bytes == 4) {
    int32_t narrow = 0;
    std::memcpy(&narrow, place, sizeof narrow);
    return narrow;
  }
  std::memcpy(&value, place, sizeof value);
  return value;
}

}  // namespace

Model::Step Model::make_loop(StoredModel& source, Frame& frame, const graph::Node& node,
                             const graph::Plan& plan, char* block, std::vector<Workspace>& copies) {
  const graph::Loop& loop = *node.loop;
  const graph::Graph& body = loop.body;
  frames_.emplace_back();
  Frame& own = frames_.back();
  own.graph = &body;
  own.places = plan.places;
  own.offsets = plan.offsets;
  own.base = block;
  own.constants.resize(body.values.size());
  Step step;
  step.loop = std::make_unique<Rounds>();
  Rounds& rounds = *step.loop;
  rounds.most = graph::size_of(*frame.graph, loop.rounds);
  if (const auto count = node.operands.find(graph::kRounds); count != node.operands.end()) {
    rounds.count = static_cast<const char*>(place_of(source, frame, count->second));
    rounds.count_bytes = static_cast<int>(frame.graph->values[count->second].bytes());
  }
  const auto copy = [&](size_t value, void* to, const void* from, bool back = false) {
    const graph::Value& v = body.values[value];
    return Copy{static_cast<char*>(to), static_cast<const char*>(from),
                graph::size_of(body, v.count()), bits_of(v.elem), back};
  };
  const auto given = [&](size_t input) {
    return static_cast<char*>(
        place_of(source, frame, node.operands.at(body.values[body.inputs[input]].name)));
  };
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    if (loop.inputs[i].kind == graph::Loop::In::Whole) own.outside[body.inputs[i]] = given(i);
  }
  const auto inside = [&](size_t value) { return place_of(source, own, value); };
  for (const graph::Node& n : body.nodes) add_step(source, own, n, plan, copies, &rounds.steps);
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    const size_t value = body.inputs[i];
    switch (loop.inputs[i].kind) {
      case graph::Loop::In::Whole: break;
      case graph::Loop::In::Number: rounds.number = static_cast<char*>(inside(value)); break;
      case graph::Loop::In::Rows:
        rounds.rows_in.push_back(copy(value, inside(value), given(i)));
        break;
      case graph::Loop::In::RowsBack:
        rounds.rows_in.push_back(copy(value, inside(value), given(i), true));
        break;
      case graph::Loop::In::Carried:
        rounds.before.push_back(copy(value, inside(value), given(i)));
        rounds.next.push_back(
            copy(value, inside(value), inside(body.outputs[loop.inputs[i].next])));
        break;
    }
  }
  stage_inputs(own, body, rounds);
  for (size_t o = 0; o < loop.outputs.size(); ++o) {
    const graph::Loop::Output& output = loop.outputs[o];
    void* to = place_of(source, frame, o == 0 ? node.output : node.more[o - 1]);
    const size_t made = body.outputs[output.from];
    if (output.rows) {
      rounds.rows_out.push_back(copy(made, to, inside(made), output.back));
    } else {
      const size_t input = body.inputs[graph::carried_input(loop, output.from)];
      rounds.after.push_back(copy(input, to, inside(input)));
    }
  }
  if (loop.go_on) rounds.go_on = static_cast<const char*>(inside(body.outputs[*loop.go_on]));
  return step;
}

// What the next round is given may lie in the place of an input itself, which another copy overwrites first.
void Model::stage_inputs(const Frame& frame, const graph::Graph& body, Rounds& rounds) {
  const auto is_input = [&](const char* from) {
    return std::ranges::any_of(rounds.before, [&](const Copy& c) {
      return c.to <= from && from < c.to + c.bytes(largest_sizes());
    });
  };
  int64_t bytes = 0;
  for (const Copy& c : rounds.next) bytes += is_input(c.from) ? c.bytes(largest_sizes()) : 0;
  rounds.stage = Block(bytes, nullptr);
  char* at = static_cast<char*>(rounds.stage.data());
  for (Copy& c : rounds.next) {
    if (!is_input(c.from)) continue;
    rounds.staged.push_back(c);
    rounds.staged.back().to = at;
    c.from = at;
    at += c.bytes(largest_sizes());
  }
}

void Model::run_loop(Step& step, Sizes& sizes, const Course& course, bool timed) {
  Rounds& loop = *step.loop;
  int64_t rounds = loop.most.at(sizes.data());
  if (loop.count != nullptr) {
    rounds = std::clamp<int64_t>(integer_at(loop.count, loop.count_bytes), 0, rounds);
  }
  const auto whole = [&](const std::vector<Copy>& copies) {
    for (const Copy& c : copies) {
      if (c.to != c.from) std::memcpy(c.to, c.from, static_cast<size_t>(c.bytes(sizes)));
    }
  };
  whole(loop.before);
  if (loop.count != nullptr || loop.go_on != nullptr) {  // rows of rounds that do not run are zeros
    for (const Copy& c : loop.rows_out) {
      std::memset(c.to, 0, static_cast<size_t>(loop.most.at(sizes.data()) * c.bytes(sizes)));
    }
  }
  for (int64_t t = 0; t < rounds; ++t) {
    const auto row = [&](const Copy& c) { return (c.back ? rounds - 1 - t : t) * c.bytes(sizes); };
    if (loop.number != nullptr) std::memcpy(loop.number, &t, sizeof t);
    for (const Copy& c : loop.rows_in) {
      std::memcpy(c.to, c.from + row(c), static_cast<size_t>(c.bytes(sizes)));
    }
    for (const auto& inner : loop.steps) run_step(*inner, sizes, course, timed);
    for (const Copy& c : loop.rows_out) {
      std::memcpy(c.to + row(c), c.from, static_cast<size_t>(c.bytes(sizes)));
    }
    const bool ends = loop.go_on != nullptr && *loop.go_on == 0;
    whole(loop.staged);
    whole(loop.next);
    if (ends) break;
  }
  whole(loop.after);
}

}  // namespace tilewright::serving
