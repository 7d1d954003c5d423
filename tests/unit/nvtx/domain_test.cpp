#include "sluice/nvtx/domain.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <thread>

#include "probe_calls.hpp"

namespace sluice::nvtx {
namespace {

using testing::SizeIs;

TEST(Domain, IsCalledSluice) {
  const ProbeCalls calls;
  { const Domain domain; }
  ASSERT_THAT(calls.of("domain"), SizeIs(1));
  EXPECT_EQ(calls.of("domain")[0]["domain"], "sluice");
  EXPECT_THAT(calls.of("destroy"), SizeIs(1));
}

TEST(Domain, CategoriesHaveDifferentNames) {
  std::set<std::string> names;
  for (auto category = static_cast<std::uint32_t>(Category::Forward);
       category <= static_cast<std::uint32_t>(Category::Profile); ++category)
    names.insert(to_string(static_cast<Category>(category)));
  EXPECT_THAT(names, SizeIs(8));
  EXPECT_FALSE(names.contains(""));
}

TEST(NameThisThread, NamesTheThreadThatCalls) {
  const ProbeCalls calls;
  long id = 0;
  std::thread([&id] {
    id = syscall(SYS_gettid);
    name_this_thread("worker");
  }).join();
  ASSERT_THAT(calls.of("name thread"), SizeIs(1));
  EXPECT_EQ(calls.of("name thread")[0]["name"], "worker");
  EXPECT_EQ(calls.of("name thread")[0]["named"], id);
}

TEST(Probe, EscapesWhatItWrites) {
  const ProbeCalls calls;
  const std::string name = "a \"name\" of\ntwo \\lines\t\x01";
  name_this_thread(name);
  name_this_thread("not \xff\xfe text");
  ASSERT_THAT(calls.of("name thread"), SizeIs(2));
  EXPECT_EQ(calls.of("name thread")[0]["name"], name);
  EXPECT_EQ(calls.of("name thread")[1]["name"], "not \xef\xbf\xbd\xef\xbf\xbd text");
}

TEST(Probe, ServesEveryLibraryOfAProgram) {
  const ProbeCalls calls;
  const Domain domain;
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(SLUICE_NVTX_LIBRARY, RTLD_NOW), dlclose);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto mark = reinterpret_cast<void (*)()>(dlsym(library.get(), "mark_from_library"));
  ASSERT_NE(mark, nullptr);
  mark();
  name_this_thread("still here");
  ASSERT_THAT(calls.of("mark"), SizeIs(1));
  EXPECT_EQ(calls.of("mark")[0]["domain"], "library");
  EXPECT_EQ(calls.of("mark")[0]["message"], "from the library");
  EXPECT_FALSE(calls.of("mark")[0]["registered"]);
  EXPECT_THAT(calls.of("name thread"), SizeIs(1));
}

}  // namespace
}  // namespace sluice::nvtx
