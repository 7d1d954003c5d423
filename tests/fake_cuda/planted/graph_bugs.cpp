#include <array>

#include "planted_bug.hpp"
#include "unit/fake_cuda/number_kernels.hpp"

namespace planted {
namespace {

using fake_cuda_tests::add;
using fake_cuda_tests::count_up;
using fake_cuda_tests::scale;

/// A chain of kernels, so that the graphs have 20 nodes and more.
void work_on(int* numbers, cudaStream_t stream) {
  check(count_up(numbers, kCount, 1, stream));
  for (int i = 0; i < 9; ++i) check(scale(numbers, kCount, 3, stream));
}

void launch_twice(cudaGraphExec_t exec, cudaStream_t stream) {
  for (int i = 0; i < 2; ++i) check(cudaGraphLaunch(exec, stream));
}

/// In a graph, what two branches made is added up before the second has joined.
void missing_join_in_graph(bool planted) {
  const Scene scene;
  cudaGraphExec_t exec = captured(scene, [&] {
    scene.order(scene.first, scene.second);
    work_on(scene.device[0], scene.first);
    work_on(scene.device[1], scene.second);
    if (!planted) scene.order(scene.second, scene.first);
    check(add(scene.device[0], scene.device[1], scene.device[2], kCount, scene.first));
    if (planted) scene.order(scene.second, scene.first);
  });
  launch_twice(exec, scene.first);
  check(cudaGraphExecDestroy(exec));
}

/// In a graph, a branch starts from an event recorded before what it reads is written.
void fork_too_early_in_graph(bool planted) {
  const Scene scene;
  cudaGraphExec_t exec = captured(scene, [&] {
    check(cudaMemsetAsync(scene.device[1], 0, kBytes, scene.first));
    if (planted) scene.order(scene.first, scene.second);
    work_on(scene.device[0], scene.first);
    if (!planted) scene.order(scene.first, scene.second);
    work_on(scene.device[2], scene.second);
    check(add(scene.device[0], scene.device[2], scene.device[1], kCount, scene.second));
    scene.order(scene.second, scene.first);
  });
  launch_twice(exec, scene.first);
  check(cudaGraphExecDestroy(exec));
}

/// A branch's stream was not forked from the capture by an event: its work runs at once, and not in the
/// graph.
void fork_without_event(bool planted) {
  const Scene scene;
  work_on(scene.device[0], scene.first);
  cudaGraphExec_t exec = captured(scene, [&] {
    work_on(scene.device[1], scene.first);
    if (!planted) scene.order(scene.first, scene.second);
    check(scale(scene.device[0], kCount, 2, scene.second));
    if (!planted) scene.order(scene.second, scene.first);
  });
  launch_twice(exec, scene.first);
  check(cudaGraphExecDestroy(exec));
}

/// Two graphs that share their temporaries run on two streams.
void graphs_share_temporaries(bool planted) {
  const Scene scene;
  std::array<cudaGraphExec_t, 2> execs{};
  for (int i = 0; i < 2; ++i) {
    execs[i] = captured(scene, [&] {
      work_on(scene.device[2], scene.first);
      check(add(scene.device[2], scene.device[2], scene.device[i], kCount, scene.first));
    });
  }
  check(cudaGraphLaunch(execs[0], scene.first));
  if (!planted) scene.order(scene.first, scene.second);
  check(cudaGraphLaunch(execs[1], scene.second));
  for (cudaGraphExec_t exec : execs) check(cudaGraphExecDestroy(exec));
}

/// The pinned source of a graph's first copy is filled for the next launch while the last one may still read
/// it.
void source_refilled_before_replay_ends(bool planted) {
  const Scene scene;
  cudaGraphExec_t exec = captured(scene, [&] {
    scene.to_device(scene.device[0], scene.pinned[0], scene.first);
    work_on(scene.device[1], scene.first);
  });
  for (int launch = 0; launch < 2; ++launch) {
    scene.pinned[0][launch] = launch;
    check(cudaGraphLaunch(exec, scene.first));
    if (!planted) check(cudaStreamSynchronize(scene.first));
  }
  check(cudaGraphExecDestroy(exec));
}

constexpr std::array kBugs = {
    PlantedBug{"missing_join_in_graph", missing_join_in_graph},
    PlantedBug{"fork_too_early_in_graph", fork_too_early_in_graph},
    PlantedBug{"fork_without_event", fork_without_event},
    PlantedBug{"graphs_share_temporaries", graphs_share_temporaries},
    PlantedBug{"source_refilled_before_replay_ends", source_refilled_before_replay_ends},
};

}  // namespace

std::span<const PlantedBug> graph_bugs() { return kBugs; }

}  // namespace planted
