// Runs the cases of a test file and writes what happens to the file CONFORMANCE_LOG: a line when a
// case starts, for each call of phase one, and when the case ends.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "standin.h"

static FILE* out;
static op::SocVersion chip;
static const char* called = "";

static const struct { op::SocVersion version; NpuArch arch; const char* name; } chips[] = {
    {op::SocVersion::ASCEND910B, NpuArch::DAV_2201, "Ascend910B1"}, {op::SocVersion::ASCEND910_93, NpuArch::DAV_2201, "Ascend910_9391"},
    {op::SocVersion::ASCEND910, NpuArch::DAV_1001, "Ascend910A"}, {op::SocVersion::ASCEND310P, NpuArch::DAV_2002, "Ascend310P3"},
    {op::SocVersion::ASCEND950, NpuArch::DAV_3510, "Ascend950"},
};

static const char* Name()
{
    for (auto& c : chips)
        if (c.version == chip) return c.name;
    return "unknown";
}

// OneLine is a text without line breaks.
static string OneLine(string text)
{
    replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

static void Say(const char* format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    fflush(out);
}

namespace op {
SocVersion Chip() { return chip; }
void SetPlatformSocVersion(SocVersion v) { chip = v; }
void SetPlatformNpuArch(NpuArch arch)
{
    chip = SocVersion::RESERVED_VERSION;
    for (auto& c : chips)
        if (c.arch == arch) { chip = c.version; return; }
}
NpuArch PlatformInfo::GetCurNpuArch() const
{
    for (auto& c : chips)
        if (c.version == chip) return c.arch;
    return NpuArch::DAV_RESV;
}
const PlatformInfo& GetCurrentPlatformInfo()
{
    static const PlatformInfo info;
    return info;
}
}

aclTensor* TensorDesc::ToAclTypeRawPtr() const
{
    const auto& stored = storage.empty() ? view : storage;
    return aclCreateTensor(view.data(), view.size(), type, strides.empty() ? nullptr : strides.data(), offset, format, stored.data(), stored.size(), nullptr);
}

aclTensorList* TensorListDesc::ToAclTypeRawPtr() const
{
    vector<aclTensor*> tensors;
    for (auto& d : list) tensors.push_back(d.ToAclTypeRawPtr());
    return aclCreateTensorList(tensors.data(), tensors.size());
}

void Calls(const char* operation)
{
    called = operation;
    aclGetRecentErrMsg();
    Say("call %s %s\n", called, Name());
}

aclnnStatus Called(aclnnStatus code)
{
    const char* message = code ? aclGetRecentErrMsg() : nullptr;
    Say("code %d%s\n", code, message && strstr(message, "does not implement") ? " absent" : "");
    if (message) Say("said %s\n", OneLine(message).c_str());
    return code;
}

class Reporter : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo& i) override { Say("start %s.%s\n", i.test_suite_name(), i.name()); }
    void OnTestPartResult(const testing::TestPartResult& r) override
    {
        if (r.failed()) Say("wrong %s\n", OneLine(r.summary()).c_str());
    }
    void OnTestEnd(const testing::TestInfo& i) override
    {
        Say("end %s %s\n", i.result()->Skipped() ? "skipped" : i.result()->Passed() ? "passed" : "failed", Name());
    }
};

int main(int argc, char** argv)
{
    out = fopen(getenv("CONFORMANCE_LOG"), "a");
    chip = op::SocVersion::ASCEND910B;
    for (auto& c : chips)
        if (string(c.name) == getenv("CANN_EMU_SOC")) chip = c.version;
    testing::InitGoogleTest(&argc, argv);
    testing::UnitTest::GetInstance()->listeners().Append(new Reporter);
    aclInit(nullptr);
    aclrtSetDevice(0);
    (void)RUN_ALL_TESTS();
    Say("done\n");
    _Exit(0);
}
