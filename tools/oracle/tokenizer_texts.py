"""Texts that tokenizers trip over: languages, code, numbers, white space, marks, special tokens."""
import random

LANGUAGES = [
    "The quick brown fox jumps over the lazy dog. It's what they'd say, isn't it? WE'LL SEE, I'VE BEEN",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Straße, ẞ, ſ",
    "Dès Noël où un zéphyr haï me vêt de glaçons würmiens, je dîne d’exquis rôtis de bœuf.",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío. ¿Qué? ¡Añoraba!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЖ",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. ἄλφα ᾳ",
    "我能吞下玻璃而不伤身体。今天是2024年5月17日，星期五！《三体》",
    "いろはにほへと ちりぬるを。カタカナ、ｶﾀｶﾅ、ガギグゲゴ 々〆",
    "다람쥐 헌 쳇바퀴에 타고파. 한국어 한글",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. ٠١٢٣ ٤٥٦٧",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. בְּרֵאשִׁית",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार १२३४",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ๑๒๓",
    "Pijamalı hasta yağız şoföre çabucak güvendi. Iıİi",
    "Tiếng Việt rất đẹp: ạ ả ã à á ặ ẳ ẵ ằ ắ ậ ẩ ẫ ầ ấ",
    "ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྃ། ᠮᠣᠩᠭᠣᠯ ខ្មែរ မြန်မာ ქართული հայերեն አማርኛ",
]
CODE = [
    "def f(x: int) -> str:\n    \"\"\"Doc.\"\"\"\n    return f'{x:>10}'  # comment\n\n\nprint(f(3))\n",
    "int main(void) {\n\tfor (size_t i = 0; i < n; ++i) {\n\t\ta[i] += b[i] << 2;\n\t}\n\treturn 0;\n}\n",
    "{\"key\": [1, 2.5e-3, true, null], \"nested\": {\"a\": \"\\u00e9\\n\"}}",
    "<div class=\"x\">&nbsp;<a href='https://example.com/path?q=1&r=2#frag'>link</a></div>",
    "SELECT * FROM t WHERE id IN (1,2,3) AND name LIKE '%x%'; -- done",
    "$\\sum_{i=0}^{\\infty} \\frac{x^i}{i!} = e^x$ and \\begin{align*}",
    "x=1;y=2;//comment/*block*/\r\nif(a&&b||!c){d();}\r\n",
    "git commit -m \"fix: #123\" && echo $? | grep -E '^[a-z]+$' >> out.log 2>&1",
    "/usr/local/lib/python3.11/site-packages/ C:\\Windows\\System32 ./a//b///c",
    "camelCaseHTTPServerID snake_case_name SCREAMING_CASE kebab-case XMLHttpRequest iPhone15ProMax",
    "a.b.c->d::e<f>(g)[h]{i}@j#k$l%m^n&o*p~q`r|s\\t;u:v'w\"x,y.z?!",
]
NUMBERS = [
    "0", "1 12 123 1234 12345 123456 1234567890", "3.14159265358979 -2.5e+10 1,000,000.00 0x1F 0b101",
    "12345678901234567890", "१२३४५६ ٣٤٥ １２３４ ²³¼½ Ⅷ ①②③ 〇一二三", "2024-05-17T12:34:56.789Z +49 (0)30 123",
    "a1b22c333d4444e55555", "1st 2nd 3rd 4th", "v1.2.3-rc4+build5", "𝟏𝟐𝟑 𝟘 𑁦𑁧",
]
SPACES = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n\r\n", "\t", "\t\t x", " a", "  a", "   a", "a ",
    "a  ", "a   b", "a\nb", "a\n\nb", "a \n b", "a  \n\n  b", "\n a", "\n\n  a", " \n \n ", "a\r\nb\rc\n\rd",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u0085g", "\u180e x \u200b y \u200d z \ufeff", "x\u000b\u000cy",
    "    indented\n        more\n\tand tabs\n", "trailing   \nspaces \t \n", " " * 50 + "x" + " " * 33,
    "\n" * 20 + " " * 7 + "\n" * 3, "\t" * 17 + "end", " \u00a0 \u2003 ", "word\u00a0word \u3000。",
]
UNICODE = [
    "e\u0301 vs \u00e9, A\u030a vs \u00c5 vs \u212b, \u1e9b\u0323 \ufb01",
    "q\u0307\u0323 q\u0323\u0307 s\u0323\u0307 d\u0307\u0327\u0323", "\u0301 starts with a mark",
    "Z\u0351\u036b\u0343\u036a\u0302a\u0314\u0316l\u0321g\u0301\u035eo\u0330", "\u1100\u1161\u11a8 \uac01 \u1100\u1161",
    "\u0958 \u0915\u093c \u09cb \u09c7\u09be \u0fb2\u0f80 \u2adc \u0344 \u0374 \u1f71 \u2126 \u2000",
    "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇩🇪🇺🇸 ❤️ ☕️ 1️⃣ 🧑🏿‍🚀", "😀😃😄😁 :-) ¯\\_(ツ)_/¯ (╯°□°）╯︵ ┻━┻",
    "—–‐‑‒― “quotes” ‘single’ „unten“ «guillemets» … ‰ † ‡ • ′ ″", "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β → γ ≤ ∞ ± √2 × π",
    "€ £ ¥ ₿ ¢ ₹ © ® ™ ℃ № ℡ µ Ω ª º", "\u202eRTL override\u202c \u2066isolate\u2069 soft\u00adhyphen",
    "\U0001F9FF\U000E0067\U000E007F \U0010FFFF \uE000 \uFFFD \uFFFE", "ß ẞ ﬀ ﬃ ﬅ ŉ ǰ ΐ և ẖ",
    "𝒯𝓱𝔢 𝕢𝖚𝗂𝘤𝙠 𝚋𝚛𝚘𝚠𝚗 𐐷 𝄞 𠮷野家 𪚥", "ǅ ǈ ǋ ᾈ Ǆǅǆ ʰʲˠ ªº ʻokina",
    "\u0897\u1c89\ua7cb\ua7dc\u2427\u2ffc \U0002EBF0\U00031350 \U00011F00\U0001E4D0 new in 15 and 16",
    "\U00010D40\U00010D41 \U00011BF0 digits of 16; \U0001FAE8\U0001FADC\U0001FAC6", "\u0001\u0002\u007f\u009f control",
    "a\u200db\u200cc \u0378\u0379 unassigned", "I'm you're he's she'd we'll they've don't IT'S I'M ſ'ſ 'ſ 'K",
    "l'été d'accord aujourd'hui O'Neill rock'n'roll ''quoted'' 'twas '90s", "'s 't 're 've 'm 'll 'd ' s",
]
SPECIAL = [
    "<|endoftext|>", "a<|endoftext|>b", "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "<think>\nLet me think.\n</think>\n\nAnswer", "<|im_start|><|im_start|>", "<|im_start", "<|<|im_end|>|>",
    " <|endoftext|> ", "<|endoftext|>\n\n<|endoftext|>", "[gMASK]<sop><|user|>\n你好<|assistant|>", "[MASK] [mask]",
    "<|begin_of_text|><|eot_id|>x", "<|start|>system<|message|>hi", "<｜begin▁of▁sentence｜><｜User｜>hi<｜end▁of▁sentence｜>",
    "x <s> y </s> z", "  <s>  </s>  <s></s>", "word words sword word-word word_word wörd word. (word)", "both both  both",
    " both\n\tboth ", "café cafe\u0301 CAFÉ", "a b a  b aa bb", "wordy word wordyword", "\u0120x Ġx ĠĠ", "<s", "s>",
    "\u00a0<s>\u3000</s>\u3000both\u2003", "éword wordé word\u0301 \u0301word", "<think><think></think>", "</think", "ab<s>cd",
]
ALPHABET = ["Ġhello", "ĊĊ", "Āāĳ", "¡¢£¤¥¦§¨©ª«¬®¯°", "\u00ad"]
RUNS = ["a" * 100, "A" * 100, "aA" * 40, "1" * 100, "世" * 60, "!" * 90, "é" * 70, "e\u0301" * 40, "👍" * 30, "ab " * 40,
        "=" * 80 + "\n", "-" * 79 + "\r\n" * 5, "/" * 40 + "\n/", "\u0301" * 60, "\u0327\u0301" * 30, "的" * 7 + "a" * 9]

BITS = ["the", " the", "ing", "ed", " of", "  ", "\n", "\r\n", "\t", " ", ".", ",", "!", "'s", "'LL", "é", "e\u0301", "世界", "こん",
        "안녕", "123", "7", "²", "👍🏽", "\u200d", "\u0323\u0307", "ß", "Ab", "XYZ", "_", "-", "//", "\u00a0", "\u3000", "(", ")", "<s>",
        "<|endoftext|>", "<think>", "both", "word", "ا", "क्ष", "\u0345", "\u1100\u1161"]


def texts():
    """Every text once, in an order that stays."""
    found = [*SPACES, *LANGUAGES, *CODE, *NUMBERS, *UNICODE, *SPECIAL, *ALPHABET, *RUNS]
    generator = random.Random(4)
    found += ["".join(generator.choice(BITS) for _ in range(generator.randrange(2, 14)))
              for _ in range(160)]
    return list(dict.fromkeys(found))
