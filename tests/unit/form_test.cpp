#include "sluice/agree/form.hpp"

#include <gtest/gtest.h>

#include "sluice/pipeline.hpp"

namespace sluice::agree {
namespace {

TEST(Form, IsNamedAndFoundByItsName) {
  for (const Form form : kForms) EXPECT_EQ(form_named(name(form)), form);
  EXPECT_EQ(name(Form::FirstPick), "first-pick");
  EXPECT_EQ(form_named("scalar"), std::nullopt);
  EXPECT_EQ(form_named(""), std::nullopt);
}

TEST(Form, ABitmapGrowsWithTheStagesTasks) {
  const Pipeline small = Pipeline::chain(1, 8);
  const Pipeline large = Pipeline::chain(1, 800);
  const auto longest = [](Form form, const Pipeline& pipeline) {
    return needs(form, StageTasks(pipeline, 0)).longest;
  };
  EXPECT_EQ(longest(Form::Bitmap, large) - longest(Form::Bitmap, small), 38 * 8 - 8)
      << "2,400 tasks and 24, 64 to a word";
  EXPECT_EQ(longest(Form::Leader, large), longest(Form::Leader, small));
  EXPECT_EQ(longest(Form::FirstPick, large), longest(Form::FirstPick, small));
}

}  // namespace
}  // namespace sluice::agree
