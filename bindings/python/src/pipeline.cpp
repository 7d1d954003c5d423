#include "sluice/pipeline.hpp"

#include <fmt/format.h>
#include <pybind11/operators.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "bindings.hpp"
#include "sluice/error.hpp"
#include "sluice/task.hpp"

namespace sluice::python {
namespace {

constexpr std::int64_t kMostChunks = std::numeric_limits<Chunk>::max();

using Ends = std::pair<std::int64_t, std::int64_t>;

Pass pass_named(const std::string& letter) {
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    if (letter == std::string(1, sluice::letter(static_cast<Pass>(pass)))) return static_cast<Pass>(pass);
  }
  throw ConfigError("pass", fmt::format("'{}' is not one of F, B, W", letter));
}

Task make_task(const std::string& pass, std::int64_t microbatch, std::int64_t chunk) {
  return {whole("microbatch", microbatch, 0), static_cast<Chunk>(whole("chunk", chunk, 0, kMostChunks)),
          pass_named(pass)};
}

Pipeline make_pipeline(const std::vector<std::int64_t>& stage_of, const std::vector<Ends>& edges,
                       std::int64_t microbatches, bool split_backward,
                       const std::vector<std::int64_t>& unsplittable) {
  std::vector<ChunkPlacement> chunks;
  chunks.reserve(stage_of.size());
  for (const std::int64_t stage : stage_of)
    chunks.push_back({static_cast<StageId>(whole("stage_of", stage, 0, kMostChunks)), true});
  for (const std::int64_t chunk : unsplittable)
    chunks.at(whole("unsplittable", chunk, 0, static_cast<std::int64_t>(chunks.size()) - 1)).splittable =
        false;
  std::vector<Edge> links;
  links.reserve(edges.size());
  for (const auto& [from, to] : edges)
    links.push_back({static_cast<Chunk>(whole("edges", from, 0, kMostChunks)),
                     static_cast<Chunk>(whole("edges", to, 0, kMostChunks))});
  return {std::move(chunks), std::move(links), whole("microbatches", microbatches), split_backward};
}

std::vector<StageId> placement(const Pipeline& pipeline) {
  std::vector<StageId> stages;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk)
    stages.push_back(pipeline.stage_of(static_cast<Chunk>(chunk)));
  return stages;
}

std::vector<std::pair<Chunk, Chunk>> edges(const Pipeline& pipeline) {
  std::vector<std::pair<Chunk, Chunk>> pairs;
  for (const Edge& edge : pipeline.edges()) pairs.emplace_back(edge.from, edge.to);
  return pairs;
}

std::vector<Chunk> unsplittable(const Pipeline& pipeline) {
  std::vector<Chunk> chunks;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    if (!pipeline.splittable(static_cast<Chunk>(chunk))) chunks.push_back(static_cast<Chunk>(chunk));
  }
  return chunks;
}

bool equal(const Pipeline& a, const Pipeline& b) {
  return placement(a) == placement(b) && edges(a) == edges(b) && unsplittable(a) == unsplittable(b) &&
         a.microbatches() == b.microbatches() && a.split_backward() == b.split_backward();
}

std::string text(const Pipeline& pipeline) {
  return fmt::format("<sluice.Pipeline: {} stages, {} chunks, {} microbatches{}>", pipeline.stages(),
                     pipeline.chunks(), pipeline.microbatches(),
                     pipeline.split_backward() ? ", split backward" : "");
}

void bind_task(py::module_& module) {
  py::class_<Task>(
      module, "Task",
      "One unit of work: a pass of a chunk for a microbatch. Ordered by microbatch, chunk, pass.")
      .def(py::init(&make_task), py::arg("pass_"), py::arg("microbatch"), py::arg("chunk") = 0,
           "pass_: 'F' forward, 'B' backward, 'W' weight gradient. Raises ConfigError naming the argument.")
      .def_property_readonly(
          "pass_", [](const Task& task) { return std::string(1, letter(task.pass)); },
          "'F' forward, 'B' backward (the input gradient where it is split), 'W' weight gradient.")
      .def_readonly("microbatch", &Task::microbatch, "From 0.")
      .def_readonly("chunk", &Task::chunk, "From 0, in the pipeline's order.")
      .def(py::self == py::self)
      .def(py::self < py::self)
      .def("__hash__",
           [](const Task& task) {
             return py::hash(py::make_tuple(task.microbatch, task.chunk, letter(task.pass)));
           })
      .def("__repr__", [](const Task& task) { return to_string(task); })
      .def(py::pickle(
          [](const Task& task) {
            return py::make_tuple(std::string(1, letter(task.pass)), task.microbatch, task.chunk);
          },
          [](const py::tuple& state) {
            return make_task(state[0].cast<std::string>(), state[1].cast<std::int64_t>(),
                             state[2].cast<std::int64_t>());
          }));
}

/// A value that a method of several stages or chunks looks up.
template <typename Number>
Number index(std::int64_t value, std::uint32_t size, const char* what) {
  if (value < 0 || value >= static_cast<std::int64_t>(size))
    throw py::index_error(fmt::format("there is no {} {}", what, value));
  return static_cast<Number>(value);
}

void add_makers(py::class_<Pipeline, std::shared_ptr<Pipeline>>& type) {
  type.def(py::init(&make_pipeline), py::arg("stage_of"), py::arg("edges"), py::arg("microbatches"),
           py::kw_only(), py::arg("split_backward") = false,
           py::arg("unsplittable") = std::vector<std::int64_t>{},
           R"(A pipeline of any shape.

stage_of: the stage of each chunk, chunks in topological order.
edges: pairs of chunks; activations of the first are an input of the second.
unsplittable: chunks whose backward cannot be split.
Raises ConfigError naming the argument.)");
  type.def_static(
      "chain",
      [](std::int64_t stages, std::int64_t microbatches, bool split) {
        return Pipeline::chain(whole("stages", stages, 1, kMostChunks), whole("microbatches", microbatches),
                               split);
      },
      py::arg("stages"), py::arg("microbatches"), py::kw_only(), py::arg("split_backward") = false,
      "One chunk a stage, each feeding the next.");
  type.def_static(
      "interleaved",
      [](std::int64_t stages, std::int64_t chunks, std::int64_t microbatches, bool split) {
        return Pipeline::interleaved(whole("stages", stages, 1, kMostChunks),
                                     whole("chunks_per_stage", chunks, 1, kMostChunks),
                                     whole("microbatches", microbatches), split);
      },
      py::arg("stages"), py::arg("chunks_per_stage"), py::arg("microbatches"), py::kw_only(),
      py::arg("split_backward") = false,
      "A chain of stages * chunks_per_stage chunks, chunk c on stage c mod stages.");
  type.def_static(
      "v_shape",
      [](std::int64_t stages, std::int64_t microbatches, bool split) {
        return Pipeline::v_shape(whole("stages", stages, 1, kMostChunks), whole("microbatches", microbatches),
                                 split);
      },
      py::arg("stages"), py::arg("microbatches"), py::kw_only(), py::arg("split_backward") = false,
      "A chain of 2 * stages chunks, down the stages and back up.");
  type.def_static(
      "joined",
      [](const std::vector<std::int64_t>& encoders, std::int64_t decoder, std::int64_t microbatches,
         bool split) {
        std::vector<std::uint32_t> depths;
        depths.reserve(encoders.size());
        for (const std::int64_t depth : encoders) depths.push_back(whole("encoders", depth, 1, kMostChunks));
        return Pipeline::joined(depths, whole("decoder", decoder, 1, kMostChunks),
                                whole("microbatches", microbatches), split);
      },
      py::arg("encoders"), py::arg("decoder"), py::arg("microbatches"), py::kw_only(),
      py::arg("split_backward") = false,
      "Chains of chunks of these depths, all feeding one decoder chain; each chunk on a stage of its own.");
}

void add_members(py::class_<Pipeline, std::shared_ptr<Pipeline>>& type) {
  type.def_property_readonly("stages", &Pipeline::stages, "Number of stages.")
      .def_property_readonly("chunks", &Pipeline::chunks, "Number of chunks.")
      .def_property_readonly("microbatches", &Pipeline::microbatches, "Microbatches of an iteration.")
      .def_property_readonly("split_backward", &Pipeline::split_backward,
                             "Every backward is two tasks, B and W.")
      .def_property_readonly("placement", &placement, "The stage of each chunk.")
      .def_property_readonly("edges", &edges,
                             "Pairs of chunks: the second takes the first one's activations.")
      .def_property_readonly("unsplittable", &unsplittable, "Chunks whose backward cannot be split.")
      .def(
          "chunks_of",
          [](const Pipeline& pipeline, std::int64_t stage) {
            const auto chunks = pipeline.chunks_of(index<StageId>(stage, pipeline.stages(), "stage"));
            return std::vector<Chunk>(chunks.begin(), chunks.end());
          },
          py::arg("stage"), "The stage's chunks, ascending. Raises IndexError.")
      .def("with_split", &Pipeline::with_split, py::arg("split_backward"),
           "The same pipeline with another choice of split.")
      .def("__eq__", &equal, py::is_operator())
      .def("__repr__", &text)
      .def(py::pickle(
          [](const Pipeline& pipeline) {
            return py::make_tuple(placement(pipeline), edges(pipeline), pipeline.microbatches(),
                                  pipeline.split_backward(), unsplittable(pipeline));
          },
          [](const py::tuple& state) {
            return make_pipeline(state[0].cast<std::vector<std::int64_t>>(),
                                 state[1].cast<std::vector<Ends>>(), state[2].cast<std::int64_t>(),
                                 state[3].cast<bool>(), state[4].cast<std::vector<std::int64_t>>());
          }));
}

}  // namespace

void bind_pipeline(py::module_& module) {
  bind_task(module);
  py::class_<Pipeline, std::shared_ptr<Pipeline>> type(
      module, "Pipeline",
      "A model as chunks placed on stages, and the microbatches that pass through it. Immutable.");
  add_makers(type);
  add_members(type);
}

}  // namespace sluice::python
