#include "sluice/nccl/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "../../fake_cuda/controls.hpp"
#include "../../fake_cuda/nccl_controls.hpp"

namespace sluice::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LibraryTest : public ::testing::Test {
 protected:
  ~LibraryTest() override {
    if (fakecuda_nccl_version != nullptr) fakecuda_nccl_version(0);
    if (fakecuda_driver_version != nullptr) fakecuda_driver_version(13000);
    if (fakecuda_recover != nullptr) fakecuda_recover();
  }
};

/// What is said when the library is refused.
std::string refusal(const std::function<void()>& load) {
  try {
    load();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "nccl");
    return error.what();
  }
  return "it was not refused";
}

std::string refusal_of_library() {
  return refusal([] { static_cast<void>(Library::load()); });
}

TEST_F(LibraryTest, FindsEveryCall) {
  const Library library = Library::load();
  EXPECT_GE(library.version, NCCL_VERSION(2, 29, 0));
  EXPECT_STREQ(library.get_error_string(ncclSuccess), "no error");
  EXPECT_NE(library.put_signal, nullptr);
  EXPECT_EQ(&Library::get(), &Library::get());
}

TEST_F(LibraryTest, RefusesAMissingLibrary) {
  EXPECT_THAT(refusal([] { static_cast<void>(Library::load("libnccl-that-is-not-there.so")); }),
              AllOf(HasSubstr("there is no NCCL"), HasSubstr("libnccl-that-is-not-there.so"),
                    HasSubstr("2.29"), HasSubstr("use UCX")));
}

TEST_F(LibraryTest, RefusesALibraryThatIsNotNccl) {
  EXPECT_THAT(refusal([] { static_cast<void>(Library::load("libm.so.6")); }),
              AllOf(HasSubstr("ncclGetVersion"), HasSubstr("use UCX")));
}

TEST_F(LibraryTest, RefusesALibraryWithoutOneSidedCalls) {
  if (fakecuda_nccl_version == nullptr) GTEST_SKIP() << "needs the fake library";
  fakecuda_nccl_version(22809);
  EXPECT_THAT(refusal_of_library(),
              AllOf(HasSubstr("2.28.9"), HasSubstr("2.29.0 is the least"), HasSubstr("use UCX")));
  fakecuda_nccl_version(22900);
  EXPECT_EQ(Library::load().version, 22900);
}

TEST_F(LibraryTest, RefusesAnOldDriver) {
  if (fakecuda_driver_version == nullptr) GTEST_SKIP() << "needs the fake device";
  fakecuda_driver_version(12040);
  EXPECT_THAT(refusal_of_library(),
              AllOf(HasSubstr("CUDA up to 12.4"), HasSubstr("need 12.5"), HasSubstr("use UCX")));
  fakecuda_driver_version(12050);
  EXPECT_GE(Library::load().version, NCCL_VERSION(2, 29, 0));
}

TEST_F(LibraryTest, ALibraryThatDoesNotSayItsVersionIsAnError) {
  if (fakecuda_nccl_fail == nullptr) GTEST_SKIP() << "needs the fake library";
  fakecuda_nccl_fail("ncclGetVersion", 1, ncclSystemError);
  try {
    static_cast<void>(Library::load());
    FAIL() << "nothing was thrown";
  } catch (const NcclError& error) {
    EXPECT_EQ(error.code(), ncclSystemError);
  }
}

TEST(NcclErrorTest, NamesWhatWasTriedAndTheCode) {
  const NcclError error(ncclRemoteError, "rank 1: joining");
  EXPECT_STREQ(error.what(), "rank 1: joining: ncclRemoteError");
  EXPECT_EQ(error.code(), ncclRemoteError);
  EXPECT_THAT(NcclError(static_cast<ncclResult_t>(77), "joining").what(), HasSubstr("result 77"));
}

}  // namespace
}  // namespace sluice::nccl
