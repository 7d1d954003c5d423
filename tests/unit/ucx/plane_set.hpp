#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "rank_threads.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/ucx/message_plane.hpp"

namespace sluice::ucx {

/// The ranks of a pipeline in one thread, each with a message plane of its own.
class PlaneSet {
 public:
  explicit PlaneSet(std::uint32_t ranks, const PlaneOptions& options = {}) : planes(ranks) {
    test::on_each_rank(ranks, [&](process::Bootstrap& bootstrap) {
      planes[bootstrap.rank()] = std::make_unique<MessagePlane>(bootstrap, options);
    });
    connect();
  }
  /// They end one after the other, so none can wait for the others.
  ~PlaneSet() {
    for (const auto& plane : planes) {
      if (plane) plane->abandon();
    }
  }
  PlaneSet(const PlaneSet&) = delete;
  PlaneSet& operator=(const PlaneSet&) = delete;

  /// A look at all ranks, as often as messages may need.
  void settle(int turns = 200) {
    for (int turn = 0; turn < turns; ++turn) {
      for (const auto& plane : planes) plane->progress();
    }
  }

  std::vector<std::unique_ptr<MessagePlane>> planes;

 private:
  static constexpr std::uint32_t kConnecting = 1000;

  /// A word from each rank to each: UCX connects when it is first needed, in its own time.
  void connect() {
    std::vector<std::uint32_t> all(planes.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::unique_ptr<agree::GroupChannel>> channels;
    for (const auto& plane : planes) channels.push_back(plane->channel(kConnecting, all, 0));
    for (const std::uint32_t from : all) {
      for (const std::uint32_t to : all) {
        if (from != to) channels[from]->send(to, {});
      }
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::size_t missing = all.size() * (all.size() - 1);
    while (missing > 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "the planes do not connect";
      std::uint32_t from = 0;
      std::span<const std::byte> message;
      for (const auto& channel : channels) missing -= channel->poll(from, message) ? 1 : 0;
    }
  }
};

/// The transports of a pipeline on a set of planes, stage s on rank s.
class PipelineOnPlanes {
 public:
  PipelineOnPlanes(PlaneSet& set, const Pipeline& pipeline, std::uint32_t run = 1, std::uint32_t slots = 64)
      : set_(set) {
    std::vector<std::uint32_t> ranks(pipeline.stages());
    std::iota(ranks.begin(), ranks.end(), 0);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      buffers.push_back(std::make_unique<host::SlotBuffers>(pipeline, stage, slots));
      transports.push_back(set.planes[stage]->transport(run, pipeline, stage, ranks, buffers.back().get()));
    }
  }

  /// Everything that a rank's poll finds while all ranks get on.
  template <typename Item>
  std::vector<Item> all(StageId stage) {
    std::vector<Item> items;
    Item item;
    for (int turn = 0; turn < 200; ++turn) {
      set_.settle(1);
      while (transports[stage]->poll(item)) items.push_back(item);
    }
    return items;
  }

  std::vector<std::unique_ptr<host::SlotBuffers>> buffers;
  std::vector<std::unique_ptr<Transport>> transports;

 private:
  PlaneSet& set_;
};

}  // namespace sluice::ucx
