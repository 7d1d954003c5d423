#include "sluice/nvtx/rank_annotations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arithmetic_stage.hpp"
#include "probe_calls.hpp"
#include "sluice/host/threaded_run.hpp"
#include "sluice/nvtx/payload.hpp"

namespace sluice::nvtx {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::IsEmpty;
using testing::SizeIs;
using Calls = std::vector<json>;

struct Case {
  std::string name;
  Pipeline pipeline;
  std::string hint;
  bool user_code;
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

/// A training and a forward-only iteration on several ranks, annotated.
class AnnotatedRun : public testing::TestWithParam<Case> {
 protected:
  AnnotatedRun() {
    std::vector<std::unique_ptr<Observer>> observers;
    host::RunSettings settings;
    settings.limit = 3;
    settings.record_decisions = true;
    settings.delays = host::DelayModel::parse("tail:0.5,0.2");
    for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
      observers.push_back(
          annotate_rank(domain_, pipeline_, stage, {"rank " + std::to_string(stage), "test"}));
      settings.observers.push_back(observers.back().get());
    }
    host::ThreadedRun run(pipeline_, policy(), workload(), settings);
    for (const Iteration& iteration : iterations_) {
      run.run(iteration);
      for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
        const auto log = run.log(stage).decisions();
        decisions_[stage].insert(decisions_[stage].end(), log.begin(), log.end());
        run.log(stage).clear();
      }
    }
    all_ = calls_.all();
  }

  [[nodiscard]] host::ThreadedRun::PolicyOf policy() const {
    return
        [this](StageId stage) { return Policy::readiness(Hint::named(GetParam().hint, pipeline_, stage)); };
  }

  host::Workload workload() {
    host::Workload workload;
    if (GetParam().user_code) {
      stages_ = test::make_stages(pipeline_);
      workload.stages = test::pointers(stages_);
    } else {
      workload.task_time = [](const Launch&) { return 50us; };
    }
    return workload;
  }

  /// On any thread.
  [[nodiscard]] Calls of(const std::string& call) const {
    Calls calls;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(calls),
                 [&](const json& each) { return each["call"] == call; });
    return calls;
  }

  /// Of the thread that drives the stage.
  [[nodiscard]] json thread_of(StageId stage) const {
    for (const json& named : all_) {
      if (named["call"] == "name thread" && named["name"] == "rank " + std::to_string(stage))
        return named["named"];
    }
    return nullptr;
  }

  [[nodiscard]] Calls on(StageId stage, const std::string& call) const {
    Calls calls = of(call);
    std::erase_if(calls, [thread = thread_of(stage)](const json& each) { return each["thread"] != thread; });
    return calls;
  }

  [[nodiscard]] Calls marks(StageId stage, const std::string& category) const {
    Calls calls = on(stage, "mark");
    std::erase_if(calls, [&](const json& each) { return each["category"] != category; });
    return calls;
  }

  ProbeCalls calls_;
  Domain domain_;
  Pipeline pipeline_ = GetParam().pipeline;
  std::vector<Iteration> iterations_{{7, IterationKind::Training}, {300, IterationKind::ForwardOnly}};
  test::ArithmeticStages stages_;
  std::map<StageId, std::vector<Decision>> decisions_;
  Calls all_;
};

std::string category_of(Pass pass) {
  constexpr const char* names[] = {"forward", "backward", "weight gradient"};
  return names[static_cast<std::size_t>(pass)];
}

std::string name_of(const Decision& decision) {
  const std::string kind = decision.whole ? "B+W" : std::string(1, letter(decision.task.pass));
  return kind + " chunk " + std::to_string(decision.task.chunk);
}

TEST_P(AnnotatedRun, EveryTaskHasOneRangeFromItsLaunchToItsEnd) {
  std::map<json, json> ends;
  for (const json& end : of("end")) EXPECT_TRUE(ends.emplace(end["range"], end["time_ns"]).second);
  std::size_t ranges = 0;
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    const Calls starts = on(stage, "start");
    ASSERT_EQ(starts.size(), decisions_[stage].size());
    ranges += starts.size();
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const Decision& decision = decisions_[stage][i];
      const json& start = starts[i];
      EXPECT_EQ(start["domain"], "sluice");
      EXPECT_EQ(start["message"], name_of(decision));
      EXPECT_TRUE(start["registered"]);
      EXPECT_EQ(start["category"], category_of(decision.task.pass));
      EXPECT_EQ(
          Payload::unpacked(start["payload"]),
          Payload::of(decision.task.microbatch, decision.task.chunk, decision.slot, decision.iteration));
      ASSERT_TRUE(ends.contains(start["range"])) << start;
      EXPECT_LE(start["time_ns"].get<std::int64_t>(), ends[start["range"]].get<std::int64_t>());
    }
  }
  EXPECT_EQ(ends.size(), ranges);
}

TEST_P(AnnotatedRun, EveryDecisionHasAMarkWithWhatElseCouldHaveRun) {
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    const Calls decided = marks(stage, "decision");
    ASSERT_EQ(decided.size(), decisions_[stage].size());
    for (std::size_t i = 0; i < decided.size(); ++i) {
      const Decision& decision = decisions_[stage][i];
      EXPECT_EQ(decided[i]["message"], std::string("decide ") + letter(decision.task.pass));
      const DecisionPayload payload = DecisionPayload::unpacked(decided[i]["payload"]);
      for (std::size_t pass = 0; pass < kPasses; ++pass)
        EXPECT_EQ(payload.runnable[pass], decision.runnable[pass]);
      EXPECT_EQ(payload.held_by_limit, decision.held_by_limit);
    }
  }
}

TEST_P(AnnotatedRun, EveryMessageHasAMarkWhereItArrives) {
  std::map<StageId, std::multiset<std::tuple<std::string, Microbatch, EdgeId, std::uint8_t>>> expected;
  for (EdgeId edge = 0; edge < pipeline_.edges().size(); ++edge) {
    const Edge& ends = pipeline_.edges()[edge];
    const std::string where = " edge " + std::to_string(edge);
    for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) {
      expected[pipeline_.stage_of(ends.to)].insert({"activation" + where, m, edge, 7});
      expected[pipeline_.stage_of(ends.to)].insert({"activation" + where, m, edge, 300 % 256});
      expected[pipeline_.stage_of(ends.from)].insert({"gradient" + where, m, edge, 7});
    }
  }
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    std::multiset<std::tuple<std::string, Microbatch, EdgeId, std::uint8_t>> arrived;
    for (const json& mark : marks(stage, "arrival")) {
      const Payload payload = Payload::unpacked(mark["payload"]);
      EXPECT_NE(payload.slot, Payload::kOtherSlot);
      arrived.insert({mark["message"], payload.microbatch, payload.place, payload.iteration});
    }
    EXPECT_EQ(arrived, expected[stage]) << "stage " << stage;
  }
}

TEST_P(AnnotatedRun, WaitsLieInIterationsAndSayWhy) {
  const std::set<std::string> reasons = {"wait: message", "wait: limit",     "wait: device",
                                         "wait: order",   "wait: agreement", "wait: receiver"};
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    Calls iterations;
    std::size_t waits = 0;
    for (const json& push : on(stage, "push")) {
      EXPECT_EQ(push["domain"], "sluice");
      if (push["category"] == "iteration") {
        EXPECT_EQ(push["depth"], 0);
        iterations.push_back(push);
        continue;
      }
      ++waits;
      EXPECT_EQ(push["category"], "wait");
      EXPECT_EQ(push["depth"], 1);
      EXPECT_TRUE(reasons.contains(push["message"])) << push;
    }
    ASSERT_THAT(iterations, SizeIs(2));
    EXPECT_EQ(iterations[0]["message"], "iteration test");
    EXPECT_EQ(iterations[0]["payload"], 7);
    EXPECT_EQ(iterations[1]["payload"], 300);
    EXPECT_GT(waits, 0U);
    const Calls pops = on(stage, "pop");
    EXPECT_EQ(pops.size(), waits + iterations.size());
    EXPECT_EQ(std::count_if(pops.begin(), pops.end(), [](const json& pop) { return pop["depth"] == 0; }), 2);
  }
}

TEST_P(AnnotatedRun, RangesOfOneThreadAreBalancedAndNothingIsLaunchedInAWait) {
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    std::vector<json> open;
    for (const json& call : all_) {
      if (call["thread"] != thread_of(stage)) continue;
      if (call["call"] == "push") {
        open.push_back(call["category"]);
      } else if (call["call"] == "pop") {
        ASSERT_THAT(open, testing::Not(IsEmpty()));
        open.pop_back();
      } else if (call["call"] == "start") {
        EXPECT_EQ(open, std::vector<json>{"iteration"});
      }
    }
    EXPECT_THAT(open, IsEmpty());
  }
}

TEST_P(AnnotatedRun, EveryRankNamesItsThreadOnce) {
  std::set<json> threads;
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) threads.insert(thread_of(stage));
  EXPECT_EQ(threads.size(), pipeline_.stages());
  EXPECT_FALSE(threads.contains(nullptr));
  EXPECT_THAT(of("name thread"), SizeIs(pipeline_.stages()));
}

INSTANTIATE_TEST_SUITE_P(Runs, AnnotatedRun,
                         testing::Values(Case{"Emulated", Pipeline::chain(3, 6, true), "bfw", false},
                                         Case{"TwoChunksAStage", Pipeline::interleaved(2, 2, 4), "bf", false},
                                         Case{"UserCode", Pipeline::chain(3, 6), "fb", true}),
                         [](const auto& tested) { return tested.param.name; });

class Annotations : public testing::Test {
 protected:
  ProbeCalls calls_;
  Domain domain_;
  Pipeline pipeline_ = Pipeline::chain(2, 4);
  std::unique_ptr<Observer> rank_ = annotate_rank(domain_, pipeline_, 0, {"rank 0", ""});
};

TEST_F(Annotations, WhatIsOpenIsClosedWhenAnIterationIsGivenUp) {
  rank_->began({3});
  for (Microbatch m = 0; m < 2; ++m) {
    Decision decision;
    decision.task = {m, 0, Pass::Forward};
    rank_->launching(decision);
  }
  Done done;
  done.task = {0, 0, Pass::Forward};
  rank_->finished(done);
  rank_->waits(WaitFor::Message);
  rank_->stopped();
  EXPECT_EQ(calls_.of("start").size(), calls_.of("end").size());
  EXPECT_EQ(calls_.of("push").size(), calls_.of("pop").size());
  rank_.reset();
  EXPECT_THAT(calls_.of("end"), SizeIs(2));
  EXPECT_EQ(calls_.of("pop").back()["depth"], 0);
}

TEST_F(Annotations, AWaitForTheSameReasonIsOneRange) {
  rank_->began({0});
  rank_->waits(WaitFor::Message);
  rank_->waits(WaitFor::Message);
  rank_->waits(WaitFor::Admission);
  const Calls pushes = calls_.of("push");
  ASSERT_THAT(pushes, SizeIs(3));
  EXPECT_EQ(pushes[0]["message"], "iteration");
  EXPECT_EQ(pushes[1]["message"], "wait: message");
  EXPECT_EQ(pushes[2]["message"], "wait: limit");
  EXPECT_EQ(pushes[2]["depth"], 1);
}

}  // namespace
}  // namespace sluice::nvtx
