#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/device_traffic.hpp"
#include "nccl/put_threads.hpp"

/// What the tests of the transport that puts have in common.
namespace sluice::nccl {

inline MessageId activation(Microbatch microbatch) { return {0, microbatch, 0, Direction::Activation}; }
inline MessageId gradient(Microbatch microbatch) { return {0, microbatch, 0, Direction::Gradient}; }

/// What `call` throws; empty if nothing.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// What polling throws sooner or later.
inline std::string error_of_polling(PutTransport& transport) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < until) {
    Offer offer;
    Arrival arrival;
    const std::string error = error_of([&] {
      static_cast<void>(transport.poll(offer));
      static_cast<void>(transport.poll(arrival));
    });
    if (!error.empty()) return error;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return "nothing was thrown";
}

inline Offer next_offer(PutTransport& transport) {
  Offer offer;
  EXPECT_TRUE(transport.poll(offer));
  return offer;
}

/// Polls one rank until it finds something, and lets the other get on.
template <typename Item>
Item await(PutTransport& transport, PutTransport& other) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Item item;
  Offer none;
  while (!transport.poll(item)) {
    if (std::chrono::steady_clock::now() > until) {
      ADD_FAILURE() << "nothing comes";
      break;
    }
    EXPECT_FALSE(other.poll(none));
    std::this_thread::yield();
  }
  return item;
}

/// The pipeline's ranks, each a thread.
inline void exchange(const Pipeline& pipeline, const std::vector<test::DeviceSlots::Size>& sizes,
                     std::uint64_t iterations) {
  host::InProcessGroup group(std::vector<Wake*>(pipeline.stages()), test::PutRank::needs(pipeline, sizes[0]));
  test::on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const std::uint32_t number = bootstrap.rank();
    const auto stage = static_cast<StageId>(number);
    test::PutRank rank(pipeline, stage, sizes[number], test::all_gather_of(bootstrap), group.channel(number));
    test::DeviceTraffic(pipeline, stage, rank, sizes[number], 1).run(iterations);
  });
}

class PutTransportTest : public ::testing::Test {
 protected:
  ~PutTransportTest() override {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(0);
    if (fakecuda_recover != nullptr) fakecuda_recover();
  }
};

}  // namespace sluice::nccl
