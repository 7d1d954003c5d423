#pragma once

#include <cuda_runtime_api.h>
#include <semaphore.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/device_rank.hpp"
#include "forked_ranks.hpp"
#include "sluice/cuda/device.hpp"

namespace sluice::test {

/// Stages as forked processes, each with a transport, which this process tells what to do. It must not have
/// used CUDA itself.
/// @tparam Rank has slots and a transport, as DeviceRank
template <typename Rank = DeviceRank>
class RemoteRanks {
 public:
  using Payload = DeviceSlots::Payload;
  /// Called in the rank's process.
  using Make = std::function<std::unique_ptr<Rank>(StageId, process::Bootstrap&)>;

  RemoteRanks(const Pipeline& pipeline, const Make& make) : desks_(pipeline.stages() * sizeof(Desk)) {
    for (std::uint32_t rank = 0; rank < pipeline.stages(); ++rank) {
      new (&desk(rank)) Desk;
      sem_init(&desk(rank).asked, 1, 0);
      sem_init(&desk(rank).answered, 1, 0);
      endpoints_.push_back(std::make_unique<Endpoint>(desk(rank)));
    }
    ranks_ = std::make_unique<ForkedRanks>(
        pipeline.stages(), [&](process::Bootstrap& bootstrap) { return serve(make, bootstrap); });
  }
  /// @throws std::runtime_error if a process did not end as it should
  void close() {
    for (const auto& endpoint : endpoints_) endpoint->start(Call::Quit);
    for (const Ending& ending : ranks_->wait()) {
      if (ending.code != 0)
        throw std::runtime_error("a rank's process ended with " + std::to_string(ending.code));
    }
  }

  [[nodiscard]] Transport& endpoint(StageId stage) { return *endpoints_[stage]; }
  void synchronize() {
    for (const auto& endpoint : endpoints_) endpoint->start(Call::Synchronize);
    for (const auto& endpoint : endpoints_) endpoint->finish();
  }
  void put(StageId stage, const MessageId& id, Slot slot, const Payload& payload) {
    Desk& desk = endpoints_[stage]->desk();
    desk.id = id;
    desk.slot = slot;
    write(desk, payload);
    endpoints_[stage]->call(Call::Put);
  }
  [[nodiscard]] Payload get(StageId stage, const MessageId& id, Slot slot) {
    Desk& desk = endpoints_[stage]->desk();
    desk.id = id;
    desk.slot = slot;
    endpoints_[stage]->call(Call::Get);
    return read(desk);
  }

 private:
  enum class Call {
    PollOffer,
    Accept,
    PollArrival,
    Send,
    PollSendDone,
    NextDeadline,
    Put,
    Get,
    Synchronize,
    Quit
  };

  static constexpr std::size_t kMostElements = 256;
  static constexpr std::size_t kMostTensors = 4;
  static constexpr std::size_t kLongestError = 500;
  static constexpr int kLongestAnswer = 30;  // seconds

  /// Where a call and its answer lie.
  struct Desk {
    sem_t asked;
    sem_t answered;
    Call call{};
    bool found = false;
    MessageId id;
    Slot slot = kNoSlot;
    Offer offer;
    Time deadline{};
    std::size_t tensors = 0;
    std::size_t elements[kMostTensors] = {};
    double values[kMostTensors][kMostElements] = {};
    char error[kLongestError] = {};
  };

  class Endpoint final : public Transport {
   public:
    explicit Endpoint(Desk& desk) : desk_(desk) {}

    bool poll(Offer& offer) override {
      if (!call(Call::PollOffer)) return false;
      offer = desk_.offer;
      return true;
    }
    void accept(const Offer& offer, Slot slot) override {
      desk_.offer = offer;
      desk_.slot = slot;
      call(Call::Accept);
    }
    bool poll(Arrival& arrival) override {
      if (!call(Call::PollArrival)) return false;
      arrival = {desk_.id, desk_.slot};
      return true;
    }
    void send(const MessageId& id, Slot slot) override {
      desk_.id = id;
      desk_.slot = slot;
      call(Call::Send);
    }
    bool poll(SendDone& done) override {
      if (!call(Call::PollSendDone)) return false;
      done = {desk_.id, desk_.slot};
      return true;
    }
    [[nodiscard]] Time next_deadline() const override {
      call(Call::NextDeadline);
      return desk_.deadline;
    }

    [[nodiscard]] Desk& desk() { return desk_; }
    void start(Call call) const {
      desk_.call = call;
      sem_post(&desk_.asked);
    }
    void finish() const {
      timespec until{};
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_sec += kLongestAnswer;
      if (sem_timedwait(&desk_.answered, &until) != 0)
        throw std::runtime_error("a rank's process does not answer");
      if (desk_.error[0] != 0) throw std::runtime_error(desk_.error);
    }
    bool call(Call call) const {
      start(call);
      finish();
      return desk_.found;
    }

   private:
    Desk& desk_;
  };

  static void write(Desk& desk, const Payload& payload) {
    desk.tensors = payload.size();
    for (std::size_t i = 0; i < payload.size(); ++i) {
      desk.elements[i] = payload[i].size();
      std::copy(payload[i].begin(), payload[i].end(), desk.values[i]);
    }
  }
  static Payload read(const Desk& desk) {
    Payload payload;
    for (std::size_t i = 0; i < desk.tensors; ++i)
      payload.emplace_back(desk.values[i], desk.values[i] + desk.elements[i]);
    return payload;
  }

  Desk& desk(std::uint32_t rank) { return desks_.as<Desk>()[rank]; }

  /// A rank's process.
  int serve(const Make& make, process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const std::unique_ptr<Rank> rank = make(static_cast<StageId>(bootstrap.rank()), bootstrap);
    Desk& desk = this->desk(bootstrap.rank());
    for (bool quit = false; !quit;) {
      if (sem_wait(&desk.asked) != 0) continue;
      quit = desk.call == Call::Quit;
      try {
        carry_out(*rank, desk);
      } catch (const std::exception& error) {
        std::snprintf(desk.error, kLongestError, "%s", error.what());
      }
      sem_post(&desk.answered);
    }
    return 0;
  }

  static void carry_out(Rank& rank, Desk& desk) {
    Transport& transport = rank.endpoint();
    switch (desk.call) {
      case Call::PollOffer:
        desk.found = transport.poll(desk.offer);
        break;
      case Call::Accept:
        transport.accept(desk.offer, desk.slot);
        break;
      case Call::PollArrival: {
        Arrival arrival;
        desk.found = transport.poll(arrival);
        desk.id = arrival.id;
        desk.slot = arrival.slot;
        break;
      }
      case Call::Send:
        transport.send(desk.id, desk.slot);
        break;
      case Call::PollSendDone: {
        SendDone done;
        desk.found = transport.poll(done);
        desk.id = done.id;
        desk.slot = done.slot;
        break;
      }
      case Call::NextDeadline:
        desk.deadline = transport.next_deadline();
        break;
      case Call::Put:
        rank.put(desk.id, desk.slot, read(desk));
        break;
      case Call::Get:
        write(desk, rank.get(desk.id, desk.slot));
        break;
      case Call::Synchronize:
        rank.pass_time();
        break;
      case Call::Quit:
        break;
    }
  }

  SharedMapping desks_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::unique_ptr<ForkedRanks> ranks_;
};

}  // namespace sluice::test
