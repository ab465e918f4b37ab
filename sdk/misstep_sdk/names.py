"""What the classes are called elsewhere; made from schemas/taxonomy.toml by `make facts`."""

from __future__ import annotations

# Every class: its names, without case, signs, and a final Error or Exception.
KNOWN_AS = {
    "InvalidStreamError": "ainooutputgenerated emptycontent emptyresponse emptystream invalidchunk invalidstream llmnoresponse nofinishreason nooutputgenerated noresponsetext thinkingonlyresponse",
    "ChunkParseError": "chunkparse ssedecode sseparse streamparse",
    "ChunkHandlerError": "chunkhandler handler streamhandler",
    "StreamAbortedError": "abort modelabort streamaborted streamcancelled streamclosedbyclient",
    "UserInterruptError": "clientcancelled interrupted keyboardinterrupt sigint stopexecution toolinterrupt userabort useraborted usercancelled userinterrupt",
    "StreamProviderError": "chunkedencoding clientpayload eventstream finishreason incompleteread incompletestream modelstreamerror modelstreaming provider responsefailed responseincomplete stream streamcut streamingfailed streamprovider",
    "TokenError": "token tokencount tokencounting tokenizer",
    "ContextOverflowError": "contextlengthexceeded contextoverflow contextwindowexceeded contextwindowoverflow llmcontextwindowexceed llmcontextwindowexceeded llmerrorcontextoverflow modelcontextwindowexceeded payloadtoolarge prompttoolong requestentitytoolarge requesttoolarge stringabovemaxlength",
    "OutputLimitError": "incompletetoolcall lengthfinishreason maxoutputtokens maxoutputtokensexceeded maxtokens maxtokensexceeded maxtokensreached messageoutputlength outputlimit outputtruncated",
    "MissingParameterError": "missingargument missinginput missingparam missingparameter missingrequiredargument missingrequiredparam missingrequiredparameter missingtoolparameter requiredparametermissed requiredparametermissing",
    "InvalidParameterError": "32602 32700 agenttoolcall aiinvalidtoolarguments aiinvalidtoolinput aijsonparse aitypevalidation argument argumenttype badargument badarguments badparameter badtoolarguments einval filetoolarge functioncallvalidation inputvalidation invalidargument invalidarguments invalidfunctionarguments invalidinput invalidparameter invalidparameters invalidparams invalidregex invalidtoolarguments invalidtoolinput invalidtoolparams jsondecode jsonmapping jsonparse jsonprocessing jsonsyntax jsonunmarshaltype methodargumentnotvalid numberformat parameter pattern re schema schemavalidation searchpathinvalid syntax toolargument toolerrorinvalidinput toolinputparsing toolinputvalidation toolparameter toolparametertype toolvalidation typevalidation validation webfetchnourlinprompt zod",
    "InvalidToolError": "32601 ainosuchtool discoveredtoolnotfound functionnotfound invalidtool invalidtoolcall nosuchtool tooldoesnotexist toolerrorunknowntool toolnotfound toolnotregistered unknownfunction unknowntool unsupportedcall unsupportedtool",
    "MalformedToolCallError": "agentactionparse agentparsing functioncallconversion functioncallnotexists functioncallparse llmmalformedaction llmnoaction malformedfunctioncall malformedtoolcall malformedtooluse notoolsused outputparser toolcall toolcallparse toomanytoolcalls unexpectedtoolcall",
    "FileNotFoundError": "directorynotfound enoent errorenoent errorkindnotfound filedoesnotexist filemissing filenotfound filenotfoundtool fserrnotexist fspath missingfile nosuchfile notfoundfile oserrorenoent ospath pathnotfound searchpathnotfound toolerrorfilenotfound",
    "FileExistsError": "attempttocreateexistingfile directorynotempty eexist enotempty errorkindalreadyexists filealreadyexists fileexists fileexiststool",
    "NotAFileError": "eisdir enotdir isadirectory isdirectory notadirectory notafile notdirectory pathisnotadirectory searchpathisnotadirectory searchpathnotadirectory targetisdirectory",
    "PermissionDeniedError": "accessdenied eacces eperm erofs errorkindpermissiondenied fserrpermission permission permissiondenied permissiondeniedtool readonlyfilesystem security unauthorizedaccess writeprotected",
    "IgnoreViolationError": "clineignore fileignored ignoredfile ignoreviolation rooignore rooignoreviolation",
    "SandboxViolationError": "externaldirectory filerestriction invalidpathaccess outsideworkspace pathnotinworkspace pathoutsideworkspace pathtraversal sandbox sandboxdenied sandboxerrdenied sandboxexecutiondenied sandboxexpansionrequired sandboxviolation toolerrorsandboxviolation",
    "DiskFullError": "diskfull edquot enospc errorkindstoragefull nospaceleft storagefull",
    "ContentNotFoundError": "contentnotfound editnomatch editnooccurrencefound nomatch nomatchfound oldstringnotfound searchnotfound searchreplacenomatch searchstringnotfound stringnotfound textnotfound",
    "ContentMismatchError": "checksummismatch contentmismatch editconflict editpreparationfailure filechanged hashmismatch stalecontent stalefile",
    "DuplicateMatchError": "ambiguousedit ambiguousmatch duplicatematch editexpectedoccurrencemismatch multiplematches multipleoccurrences toomanymatches",
    "NoChangeError": "editnochange editnochangellmjudgement identicalcontent nochange nochanges noopedit",
    "EditWithoutReadError": "editrequirespriorread editwithoutread filemodifiedsinceread filenotread readbeforeedit toolerroreditwithoutread",
    "CommandTimeoutError": "bashtimeout commandtimeout exectimeout sandboxerrtimeout shelltimeout subprocesstimeoutexpired timeoutexpired toolerrorcommandtimeout",
    "CommandFailedError": "bash calledprocess commandexecution commandfailed exec execexit execfailed exit import interpreter modulenotfound nonzeroexit process shellcommand shellexecute shellintegration subprocesscalledprocess toolerrorcommandfailed",
    "CommandNotFoundError": "commandnotfound execerrnotfound executablenotfound programnotfound",
    "ToolTimeoutError": "executiontimeout functiontimeout sdktooltimeout toolexecutiontimeout tooltimedout tooltimeout",
    "DiffApplyFailedError": "applypatch diff diffapplication diffapply diffapplyfailed editfailed hunkfailed invaliddiff invalidhunk invalidpatch parseerrorinvalidhunk parseerrorinvalidpatch patch patchapply patchfailed taskdiffeditfailed",
    "BrowserActionError": "browser browseraction browserexecution elementclickintercepted elementnotinteractable navigation nosuchelement playwright playwrightimplerrors protocolerrortarget puppeteer staleelementreference targetclosed webdriver",
    "McpToolError": "32600 32603 mcpclient mcpserver mcptool mcptoolcall mcptoolexecution toolcallresult",
    "McpResourceError": "32002 mcpresource mcpresourcenotfound resource",
    "McpConnectionError": "32000 aimcpclient anyioclosedresource brokenresource closedresource mcpclientinitialization mcpconnection mcpconnectionclosed mcpserverconnection mcpserverdisconnected mcpserverfailed mcptransport",
    "ToolExecutionError": "discoveredtoolexecution execution fileoperation filewritefailure functioninvocation globexecution grepexecution lsexecution memorytoolexecution readcontentfailure readmanyfilessearch sendmessageagentnotrunning taskstopagentnotrunning toolusage toolusageerror webfetchfallbackfailed webfetchprocessing websearchfailed",
    "ToolRepetitionError": "agentstuckinloop chantingidenticalsentences consecutiveidenticaltoolcalls doomloop invalidtoolparamsstagnation llmdetectedloop loopdetected repeatedtoolcall repeatedtoolfailureguard stuckinloop toolrepetition",
    "ConsecutiveMistakeError": "consecutivemistake consecutivemistakes mistakelimitreached taskmistakelimitreached toomanymistakes",
    "ToolAuthenticationError": "credentials loginrequired mcpauth nocredentials oauth tokenexpired toolauth toolauthentication unauthorizedtoolaccess",
    "ToolPermissionError": "approvaldenied approvalrequired backgroundagentdenied denied domainblocked egressblocked executiondenied forbidden hookdenied invocationguarddenied noninteractivedenied permissionhookdenied permissionrejected planmodeblocked policyviolation posthookstopped prehookblocked rejected sdkplanmodecommandblocked toolcalldenied tooldenied toolpermission toolrejected userreject userrejected",
    "ResourceNotFoundError": "404 agentnotfound doesnotexist entitynotfound errnonotfound itemnotfound nosuchbucket nosuchentity nosuchkey notfound recordnotfound resourcenotfound sendmessageagentnotfound sessionnotfound taskstopagentnotfound unknownobject",
    "RateLimitError": "eagain llmerrorratelimited llmratelimit modelratelimit modelthrottled openairatelimit provisionedthroughputexceeded ratelimit ratelimited ratelimitexceeded requestlimitexceeded resourceexhausted slowdown throttled throttling toomanyrequests",
    "OverloadedError": "capacity capacityexceeded capacityoffswitch engineoverloaded insufficientsystemresource modelnotready modeloverloaded overloaded repeated529 serverisoverloaded serveroverload serveroverloaded",
    "QuotaError": "billing billinghardlimitreached budgetexceeded creditbalancelow creditbalancetoolow insufficientcredits insufficientquota paymentrequired quota quotaexceeded servicequotaexceeded terminalquota usagelimitexceeded usagelimitreached",
    "AuthenticationError": "ailoadapikey auth authentication authenticationfailed expiredtoken invalidapikey invalidcredentials invalidsignature llmauthentication loadapikey missingapikey modelauthentication oauthorgnotallowed openaiauthentication providerauth refreshtokenfailed tokenrevoked unauthenticated unauthorized unrecognizedclient",
    "TimeoutError": "apiconnectiontimeout apitimeout asynciotimeout connectiontimeout connecttimeout contextdeadlineexceeded deadlineexceeded elapsed errorkindtimedout esockettimedout etimedout httptimeout llmerrortimeout llmtimeout modeltimeout openaitimeout pooltimeout readtimeout requesttimeout servertimeout sockettimeout timedout timeout tokiotimeerrorelapsed underrbodytimeout underrconnecttimeout underrheaderstimeout writetimeout",
    "ConnectionError": "apiconnection brokenpipe certificate clientconnection clientconnector clientos connect connection connectionaborted connectionclosed connectionfailed connectionrefused connectionreset domaincheckfailed eaiagain econnaborted econnrefused econnreset ehostunreach endpointconnection enetdown enetunreach enotconn enotfound epipe errnetwork errorkindconnectionrefused fetch gai h hyper interface llmconnection llmerrornetwork maxretry modelconnection netdns netop network newconnection noroutetohost openaiconnection protocol proxy read remotedisconnected remoteprotocol reqwest serverdisconnected socket socketgai ssl sslcert sslhandshake transport underrsocket unknownhost url websocket write",
    "ServerError": "badgateway dataloss dependencyfailed gatewaytimeout httpservererror internal internalfailure internalserver llmserviceunavailable modelerror modelserver openaiapi server serviceunavailable unavailable upstream",
    "InvalidResponseError": "aiemptyresponsebody aiinvalidresponsedata ainoobjectgenerated apiresponsevalidation badresponse contenttype decode decoding invalidresponse llmerrorinvalidresponse llmresponse malformedjsonresponse structuredoutput unexpectedendofinput unexpectedresponse",
    "ApiError": "aiinvalidprompt aiunsupportedfunctionality apireqfailed badrequest conflict failedprecondition llmbadrequest llmerrorapi missingthoughtsignature openaiinvalidrequest outofrange unimplemented unprocessableentity unsupportedparams",
    "ModelNotFoundError": "ainosuchmodel bedrockmodelaccess deploymentnotfound invalidmodel modelnotfound nosuchmodel providermodelnotfound unknownmodel unsupportedmodel",
    "RefusedError": "apirefusal blockedprompt blocklist contentfilter contentfilterai contentfiltered contentfilterfinishreason contentpolicyviolation guardrailintervened guardrailtripwiretriggered imagesafety inputguardrailtripwiretriggered language llmcontentpolicyviolation modelrefusal otherblocked outputguardrailtripwiretriggered prohibitedcontent recitation recitationblocked refusal refused responsibleaipolicyviolation safety safetyblocked spii",
    "StorageNotFoundError": "storageerrornotfound storagenotfound storenotfound",
    "StorageAlreadyExistsError": "duplicatekey integrity storagealreadyexists storageerroralreadyexists uniqueconstraint uniqueviolation",
    "StorageParseError": "jsonlparse storageerrorparse storageparse",
    "SqliteError": "database operational programming psycopg rusqlite sql sqlite sqlite3database sqlite3operational sqlitebusy sqlitecorrupt sqlitelocked sqlx storageerrorsqlite",
    "IoError": "ebusy eio emfile enfile javaioio stdio storageerrorio",
    "SerializationError": "dataclone encode notserializable pickling serde serdejson serialization storageerrorserialization",
    "InvalidTransitionError": "illegaltransition invalidstate invalidtransition invalidupdate looperrorinvalidtransition",
    "MaxIterationsError": "agentmaxsteps errormaxbudget errormaxturns eventloopmaxiterations graphrecursion llmcallslimitexceeded looperrormaxiterations maxiterations maxiterationsreached maxsteps maxturns maxturnsexceeded recursion turntoolcallcap usagelimitexceededrequestlimit",
    "ParentNotFoundError": "looperrorparentnotfound parentmissing parentnotfound",
    "ArtifactNotFoundError": "artifactmissing artifactnotfound looperrorartifactnotfound",
    "LoopInvalidatedError": "looperrorinvalidated loopinvalidated",
    "ValidationFailedError": "looperrorvalidationfailed outputvalidation validationfailed",
    "WorktreeLostError": "looperrorworktreelost worktreelost",
    "WorktreeCreationError": "giterrorworktreecreation worktreecreation",
    "WorktreeRemovalError": "giterrorworktreeremoval worktreeremoval",
    "MergeConflictError": "giterrormergeconflict mergeconflict",
    "BranchNotFoundError": "branchnotfound giterrorbranchnotfound",
    "GitCommandFailedError": "git gitcommand gitcommandfailed giterrorcommandfailed",
    "ConfigFileNotFoundError": "configerrorfilenotfound configfilenotfound confignotfound",
    "InvalidConfigError": "config configerrorinvalid configinvalid configjson configuration improperlyconfigured invalidconfig",
    "MissingFieldError": "configerrormissingfield missingfield",
    "InvalidValueError": "configerrorinvalidvalue invalidvalue",
    "EnvNotSetError": "configerrorenvnotset envnotset envvarnotset missingenvironmentvariable",
}

# Classes: the HTTP statuses that mean them.
STATUSES = {
    "ContextOverflowError": (413,),
    "ToolPermissionError": (403,),
    "ResourceNotFoundError": (404, 410),
    "RateLimitError": (429,),
    "OverloadedError": (529,),
    "QuotaError": (402,),
    "AuthenticationError": (401, 407),
    "TimeoutError": (408, 504),
    "ServerError": (500, 501, 502, 503, 505, 520, 521, 522, 523, 524, 525, 526, 527, 530, 598, 599),
    "ApiError": (400, 405, 406, 409, 411, 412, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 431, 451),
}

# The same of a model's provider alone.
STATUSES_OF_MODELS = {
    "OverloadedError": (409,),
}

# The same where a tool was asked.
KNOWN_AS_OF_TOOLS = {
    "UserInterruptError": "abort aborted",
    "ToolTimeoutError": "timedout timeout",
    "ToolExecutionError": "recursion",
}

# The same where a model was asked.
KNOWN_AS_OF_MODELS = {
    "ChunkParseError": "parse syntax",
    "StreamAbortedError": "canceled cancellation cancelled contextcanceled generatorexit jobcancellation operationcanceled taskcanceled",
    "StreamProviderError": "failed",
    "OverloadedError": "conflict conversationlocked",
    "AuthenticationError": "forbidden permission permissiondenied",
    "InvalidResponseError": "aijsonparse aitypevalidation jsondecode jsonparse validation zod",
    "ApiError": "invalidargument invalidparameter invalidparameters paramvalidation",
}

# Classes: what the same error is called where a tool was asked.
BECOMES_OF_TOOLS = {
    "StreamAbortedError": "UserInterruptError",
    "AuthenticationError": "ToolAuthenticationError",
    "TimeoutError": "ToolTimeoutError",
}

# Classes: what the same error is called where a model was asked.
BECOMES_OF_MODELS = {
    "MissingParameterError": "ApiError",
    "InvalidParameterError": "ApiError",
    "InvalidToolError": "MalformedToolCallError",
    "PermissionDeniedError": "AuthenticationError",
    "ToolTimeoutError": "TimeoutError",
    "ToolAuthenticationError": "AuthenticationError",
    "ToolPermissionError": "AuthenticationError",
    "ResourceNotFoundError": "ModelNotFoundError",
}
