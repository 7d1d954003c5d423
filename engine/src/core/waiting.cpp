#include "sluice/waiting.hpp"

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

std::string seconds(Duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string describe(const FarEnd& far) {
  return "stage " + std::to_string(far.stage) + " (chunk " + std::to_string(far.chunk) + ")";
}

/// What one pair's task waits for.
/// @param first its waits; all of one task
std::string describe(const Wait* first, const Wait* end) {
  std::string from;
  for (const Wait* wait = first; wait != end; ++wait) {
    if (wait->far && wait->what == first->what) from += (from.empty() ? "" : ", ") + describe(*wait->far);
  }
  switch (first->what) {
    case WaitFor::Message:
      return std::string("waits for ") +
             (first->far->direction == Direction::Activation ? "activations" : "gradients") + " from " + from;
    case WaitFor::Admission:
      return from.empty() ? "waits for the limit" : "waits for the limit to take what " + from + " offers";
    case WaitFor::Device:
      return "waits for the device or for a launched task to end";
    case WaitFor::Order:
      return "waits for its turn";
    case WaitFor::Agreement:
      return "waits for its group to agree on it";
    case WaitFor::Receiver:
      return "its messages have not been taken by " + from;
  }
  return {};
}

}  // namespace

const char* to_string(WaitFor what) noexcept {
  switch (what) {
    case WaitFor::Message:
      return "message";
    case WaitFor::Admission:
      return "limit";
    case WaitFor::Device:
      return "device";
    case WaitFor::Order:
      return "order";
    case WaitFor::Agreement:
      return "agreement";
    case WaitFor::Receiver:
      return "receiver";
  }
  return "";
}

std::string to_string(const Waiting& waiting) {
  std::string text = "rank " + std::to_string(waiting.rank) + ", iteration " +
                     std::to_string(waiting.iteration) + ": " + std::to_string(waiting.finished) + " of " +
                     std::to_string(waiting.pairs) + " (chunk, microbatch) pairs finished, " +
                     std::to_string(waiting.in_flight) + " in flight, limit " +
                     std::to_string(waiting.limit) + ", " + std::to_string(waiting.held_by_limit) +
                     " held by it, " + std::to_string(waiting.ready.size()) + " ready";
  if (waiting.since) text += "; nothing happened for " + seconds(*waiting.since);
  if (waiting.next_in_order) text += "; next in order: " + to_string(*waiting.next_in_order);
  for (const Launched& lane : waiting.launched) {
    text += "\n  launched and not ended: " + std::to_string(lane.tasks) + ", the last of them " +
            to_string(lane.last);
  }
  std::vector<Wait> all = waiting.blocked;
  all.insert(all.end(), waiting.ready.begin(), waiting.ready.end());
  const auto pair_of = [](const Wait& wait) { return std::tuple(wait.task.chunk, wait.task.microbatch); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Wait& a, const Wait& b) { return pair_of(a) < pair_of(b); });
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    const Task& task = all[first].task;
    const bool lowest = first == 0 || all[first - 1].task.chunk != task.chunk;
    while (end < all.size() && pair_of(all[end]) == pair_of(all[first])) ++end;
    if (!lowest) continue;
    text += "\n  chunk " + std::to_string(task.chunk) + ", microbatch " + std::to_string(task.microbatch) +
            ": " + describe(all.data() + first, all.data() + end);
  }
  return text;
}

}  // namespace sluice
