#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "planted_bug.hpp"

namespace planted {
namespace {

template <typename Value>
void send(int pipe, const Value& value) {
  if (write(pipe, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) std::abort();
}

template <typename Value>
Value receive(int pipe) {
  Value value{};
  if (read(pipe, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) std::exit(2);
  return value;
}

bool answered(int pipe) {
  pollfd waiting{pipe, POLLIN, 0};
  return poll(&waiting, 1, 0) != 0;
}

void own(bool planted, int to_peer, int from_peer) {
  const Scene scene;
  cudaIpcMemHandle_t handle{};
  check(cudaIpcGetMemHandle(&handle, scene.device[0]));
  if (planted) {
    // Still at it as long as the peer pulls.
    send(to_peer, handle);
    while (!answered(from_peer)) {
      check(cudaMemsetAsync(scene.device[0], 1, kBytes, scene.first));
      check(cudaStreamSynchronize(scene.first));
    }
  } else {
    check(cudaMemsetAsync(scene.device[0], 1, kBytes, scene.first));
    check(cudaStreamSynchronize(scene.first));
    send(to_peer, handle);
  }
  static_cast<void>(receive<char>(from_peer));
}

void pull(int from_owner, int to_owner) {
  {
    const Scene scene;
    void* memory = nullptr;
    check(cudaIpcOpenMemHandle(&memory, receive<cudaIpcMemHandle_t>(from_owner),
                               cudaIpcMemLazyEnablePeerAccess));
    for (int i = 0; i < 200; ++i) scene.to_host(scene.pinned[0], static_cast<int*>(memory), scene.first);
    check(cudaStreamSynchronize(scene.first));
    check(cudaIpcCloseMemHandle(memory));
  }
  send(to_owner, 'x');
}

/// Another process pulls before the owner's stream has written.
void pull_before_the_flag(bool planted) {
  std::array<int, 2> handles{};
  std::array<int, 2> answers{};
  if (pipe(handles.data()) != 0 || pipe(answers.data()) != 0) std::abort();
  const pid_t peer = fork();
  if (peer == 0) {
    pull(handles[0], answers[1]);
    std::exit(0);
  }
  own(planted, handles[1], answers[0]);
  int status = 0;
  waitpid(peer, &status, 0);
  // Either of the two may be the one that meets the other.
  if (status != 0) std::exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

constexpr std::array kBugs = {PlantedBug{"pull_before_the_flag", pull_before_the_flag}};

}  // namespace

std::span<const PlantedBug> process_bugs() { return kBugs; }

}  // namespace planted
